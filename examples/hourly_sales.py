"""A sum for each hour, and a count of the records that come too late.

A window takes records until the newest record is `grace_ms` past its end. A record that comes later is left out of the
sum and counted: a metric of the instance has the number of dropped records, and the reason.

Run it: python examples/hourly_sales.py
"""

import sys
import tempfile

import httpx

from streams_runtime import (
    LONG,
    STRING,
    Application,
    LocalRun,
    NewTopic,
    RecordProducer,
    StreamsBuilder,
    TimeWindowedSerde,
    TimeWindows,
    Topology,
    open_log,
    read_topic,
)

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
SALES = [  # minutes since midnight, shop, cents
    (10, "north", 500),
    (50, "north", 250),
    (62, "north", 100),  # the next hour has begun
    (55, "north", 40),  # late, and within the grace of ten minutes: counts
    (75, "north", 300),
    (58, "north", 999),  # the hour ended 17 minutes ago: too late, dropped
]


def topology() -> Topology:
    builder = StreamsBuilder()
    sums = (
        builder.stream("sales", STRING, LONG)
        .group_by_key()
        .windowed_by(TimeWindows(size_ms=HOUR_MS, grace_ms=10 * MINUTE_MS))
        .reduce(lambda so_far, cents: so_far + cents, store="hourly-sales")
    )
    sums.to_stream().to("hourly-sales", key_serde=TimeWindowedSerde(STRING, HOUR_MS), value_serde=LONG)
    return builder.build()


def main(directory: str) -> None:
    app = Application(
        topology(),
        {
            "application.id": "hourly-sales",
            "bootstrap.servers": f"embedded:{directory}/log",
            "state.dir": f"{directory}/state",
            "processing.guarantee": "exactly_once_v2",
        },
    )
    log = open_log(app.configs.bootstrap_servers)
    log.create_topics([NewTopic("sales", partitions=1), NewTopic("hourly-sales", partitions=1)])
    with RecordProducer(log, STRING, LONG) as sales:
        for minute, shop, cents in SALES:
            sales.send("sales", shop, cents, timestamp_ms=minute * MINUTE_MS)

    with LocalRun(app) as run:
        run.wait_until_caught_up()
        metrics = httpx.get(f"{run.endpoints[0]}/metrics").text

    windows = TimeWindowedSerde(STRING, HOUR_MS)
    sums = {record.key: record.value for record in read_topic(log, "hourly-sales", windows, LONG) if record.key}
    for window, total in sums.items():
        print(f"{window.key} from {window.start_ms // HOUR_MS}:00 to {window.end_ms // HOUR_MS}:00: {total} cents")
    for line in metrics.splitlines():
        if line.startswith("streams_dropped_records_total"):
            print(line)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp())
