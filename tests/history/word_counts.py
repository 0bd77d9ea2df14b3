"""The application of a run, its input, and whether every word was counted exactly once."""

import random
import time
from collections import Counter
from pathlib import Path

from assignor.types import TopicPartition
from streams_runtime import LONG, STRING, Application, NewTopic, StreamsBuilder, open_log, read_topic
from streams_runtime.local_run.local_run import Progress, ProgressMeter
from tests.history.calls import Counts

PARTITIONS = 4
SESSION_TIMEOUT_MS = 6_000
AT_LEAST_ONCE = "words-at-least-once"
"""The group with this guarantee. All other groups count exactly once."""
PROBING_INTERVAL = "probing.rebalance.interval.ms"
FIRST_PROBING_INTERVAL_MS = 60_000
_VOCABULARY = tuple(f"word-{number}" for number in range(300))
_WORDS_A_LINE = 4


def word_count(
    group: str, servers: str, state_directory: Path, probing_ms: int = FIRST_PROBING_INTERVAL_MS
) -> Application:
    """Two subtopologies of PARTITIONS tasks, one with a store. `servers`: of its log, as `bootstrap.servers`.

    `probing_ms`: what tells one definition from another.
    """
    builder = StreamsBuilder()
    words = builder.stream(_lines(group), STRING, STRING).flat_map_values(str.split)
    grouped = words.group_by(lambda _key, word: word, name="words", key_serde=STRING, value_serde=STRING)
    grouped.count(store="counts").to_stream().to(_counts(group), key_serde=STRING, value_serde=LONG)
    return Application(
        builder.build(),
        {
            "application.id": group,
            "bootstrap.servers": servers,
            "state.dir": str(state_directory),
            "processing.guarantee": "at_least_once" if group == AT_LEAST_ONCE else "exactly_once_v2",
            "commit.interval.ms": 200,
            "num.standby.replicas": 1,
            "num.stream.threads": 2,
            "session.timeout.ms": SESSION_TIMEOUT_MS,
            "heartbeat.interval.ms": 500,
            PROBING_INTERVAL: probing_ms,
        },
    )


def _lines(group: str) -> str:
    return f"{group}-lines"


def _counts(group: str) -> str:
    return f"{group}-counts-of-words"


class WordFeed:
    """Writes lines of words, and knows how often it has written each."""

    def __init__(self, group: str, servers: str, chance: random.Random) -> None:
        self._group = group
        self._chance = chance
        self._log = open_log(servers)
        self._log.create_topics(NewTopic(topic, PARTITIONS) for topic in (_lines(group), _counts(group)))
        self._producer = self._log.producer()
        self._meter = ProgressMeter(self._log, group, (_lines(group), f"{group}-words-repartition"))
        self._written: Counter[str] = Counter()

    def write(self, lines: int) -> None:
        """On return they can be read."""
        for _ in range(lines):
            words = self._chance.choices(_VOCABULARY, k=_WORDS_A_LINE)
            partition = TopicPartition(_lines(self._group), self._chance.randrange(PARTITIONS))
            self._producer.send(partition, b"", " ".join(words).encode(), round(time.time() * 1000))
            self._written.update(words)
        self._producer.flush()

    def progress(self) -> Progress:
        return self._meter.now()

    def counts(self) -> Counts:
        """As they are now."""
        found: dict[str, int] = {}
        twice: list[str] = []
        seen: set[tuple[str, int]] = set()
        for record in read_topic(self._log, _counts(self._group), STRING, LONG):
            assert record.value is not None, "a count is never deleted"
            word, number = str(record.key), record.value
            if (word, number) in seen:
                twice.append(f"{word} {number}")
            seen.add((word, number))
            found[word] = number
        progress = self.progress()
        lag = progress.there - progress.done
        return Counts(found, dict(self._written), tuple(twice), lag, self._group == AT_LEAST_ONCE)

    def close(self) -> None:
        self._producer.close()
        self._log.close()
