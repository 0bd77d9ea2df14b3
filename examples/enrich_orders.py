"""Enrich orders with a table: each order is joined with the customer's entry at that time.

Run it: python examples/enrich_orders.py
"""

import sys
import tempfile
from typing import Any

from streams_runtime import (
    JSON,
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

CUSTOMERS = {"c1": {"name": "Ada", "country": "UK"}, "c2": {"name": "Grace", "country": "US"}}
ORDERS = [("c1", {"item": "tea"}), ("c2", {"item": "nails"}), ("c3", {"item": "ink"})]


def enriched(order: Any, customer: Any) -> Any:
    """`customer`: None for a customer who is not in the table; the order is passed on all the same."""
    return {**order, "customer": customer}


def topology() -> Topology:
    builder = StreamsBuilder()
    # the table has the newest record of each key; it needs as many partitions as the stream
    customers = builder.table("customers", STRING, JSON, store="customers")
    orders = builder.stream("orders", STRING, JSON)
    orders.left_join(customers, enriched).to("enriched-orders", key_serde=STRING, value_serde=JSON)
    return builder.build()


def main(directory: str) -> None:
    app = Application(
        topology(),
        {
            "application.id": "enrich-orders",
            "bootstrap.servers": f"embedded:{directory}/log",
            "state.dir": f"{directory}/state",
            "processing.guarantee": "exactly_once_v2",
        },
    )
    log = open_log(app.configs.bootstrap_servers)
    log.create_topics([NewTopic(topic, partitions=2) for topic in ("customers", "orders", "enriched-orders")])
    with RecordProducer(log, STRING, JSON) as records:
        # within a task, records are processed in the order of their timestamps: customers first
        for customer, known in CUSTOMERS.items():
            records.send("customers", customer, known, timestamp_ms=1_000)
        for number, (customer, order) in enumerate(ORDERS):
            records.send("orders", customer, order, timestamp_ms=2_000 + number)

    with LocalRun(app) as run:
        run.wait_until_caught_up()

    for record in sorted(read_topic(log, "enriched-orders", STRING, JSON), key=lambda record: record.timestamp_ms):
        print(record.key, record.value)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp())
