"""Count words: the input is lines, the output is how often each word was seen.

Run it: python examples/count_words.py

On Spark, beside a coordinator and on the topics and records in ./log: assignor workers run count_words:application
"""

import sys
import tempfile
from pathlib import Path

from streams_runtime import (
    LONG,
    STRING,
    Application,
    LocalRun,
    NewTopic,
    RecordProducer,
    StreamsBuilder,
    Topology,
    open_log,
    read_topic,
)

LINES = ["the cat and the dog", "the dog", "a cat"]


def topology() -> Topology:
    builder = StreamsBuilder()
    words = builder.stream("lines", STRING, STRING).flat_map_values(str.split)
    # a count needs all records of a word in one partition: the records go through a topic of their own, keyed by word
    counts = words.group_by(lambda _key, word: word, key_serde=STRING, value_serde=STRING).count(store="counts")
    counts.to_stream().to("word-counts", key_serde=STRING, value_serde=LONG)
    return builder.build()


def application(directory: str = ".") -> Application:
    place = Path(directory).resolve()
    return Application(
        topology(),
        {
            "application.id": "count-words",
            "bootstrap.servers": f"embedded:{place}/log",  # or broker:9092
            "state.dir": f"{place}/state",
            "processing.guarantee": "exactly_once_v2",
            "num.standby.replicas": 1,  # of a store, on another instance, which takes over when one dies
        },
    )


def main(directory: str) -> None:
    app = application(directory)
    log = open_log(app.configs.bootstrap_servers)
    log.create_topics([NewTopic("lines", partitions=2), NewTopic("word-counts", partitions=2)])
    with RecordProducer(log, STRING, STRING) as lines:
        for line in LINES:
            lines.send("lines", None, line)

    with LocalRun(app) as run:  # a coordinator and one instance, until the block ends
        run.wait_until_caught_up()

    counts = {record.key: record.value for record in read_topic(log, "word-counts", STRING, LONG)}
    for word, count in sorted(counts.items()):
        print(f"{word}: {count}")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp())
