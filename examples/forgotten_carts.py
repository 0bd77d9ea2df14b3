"""A processor with a store and a punctuator: it reports shopping carts that nobody has touched for half an hour.

Run it: python examples/forgotten_carts.py
"""

import sys
import tempfile

from streams_runtime import (
    LONG,
    STRING,
    Application,
    KeyValueStore,
    LocalRun,
    NewTopic,
    Processor,
    ProcessorContext,
    PunctuationType,
    Record,
    RecordProducer,
    Topology,
    key_value_store,
    open_log,
    read_topic,
)

MINUTE_MS = 60_000
PATIENCE_MS = 30 * MINUTE_MS
CLICKS = [(0, "ada", "tea"), (5, "grace", "nails"), (10, "ada", "milk"), (40, "linus", "fish"), (50, "linus", "rod")]


class ForgottenCarts(Processor[str, str]):
    """Each task has a processor of its own, with its part of the store. The store survives a crash by its changelog."""

    def init(self, context: ProcessorContext) -> None:
        self._context = context
        self._touched: KeyValueStore[str, int] = context.state_store("touched")
        # stream time: the newest timestamp that the task has seen; it stands still when no records come
        context.schedule(10 * MINUTE_MS, PunctuationType.STREAM_TIME, self._look_for_forgotten_carts)

    def process(self, record: Record[str, str]) -> None:
        self._touched.put(record.key, record.timestamp_ms)

    def _look_for_forgotten_carts(self, now_ms: int) -> None:
        for customer, touched_ms in list(self._touched.all()):
            if now_ms - touched_ms >= PATIENCE_MS:
                self._touched.delete(customer)
                idle = (now_ms - touched_ms) // MINUTE_MS
                self._context.forward(Record(customer, f"untouched for {idle} minutes", now_ms))


def topology() -> Topology:
    return (
        Topology()
        .add_source("clicks", "cart-clicks", key_serde=STRING, value_serde=STRING)
        .add_processor("forgotten", ForgottenCarts, "clicks")
        .add_state_store(key_value_store("touched", STRING, LONG), "forgotten")
        .add_sink("reminders", "reminders", "forgotten", key_serde=STRING, value_serde=STRING)
    )


def main(directory: str) -> None:
    app = Application(
        topology(),
        {
            "application.id": "forgotten-carts",
            "bootstrap.servers": f"embedded:{directory}/log",
            "state.dir": f"{directory}/state",
            "processing.guarantee": "exactly_once_v2",
        },
    )
    log = open_log(app.configs.bootstrap_servers)
    log.create_topics([NewTopic("cart-clicks", partitions=1), NewTopic("reminders", partitions=1)])
    with RecordProducer(log, STRING, STRING) as clicks:
        for minute, customer, item in CLICKS:
            clicks.send("cart-clicks", customer, item, timestamp_ms=minute * MINUTE_MS)

    with LocalRun(app) as run:
        run.wait_until_caught_up()

    for record in read_topic(log, "reminders", STRING, STRING):
        print(f"{record.key}: {record.value}")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp())
