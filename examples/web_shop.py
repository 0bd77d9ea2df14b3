"""A web shop in one application: orders without a payment, visits of its visitors, and alarms about failed logins.

Each result has a function below:

- `settle_orders` gives orders the price of their product, and joins them with the payments of the next half hour. An
  order without a payment gets a reminder. A payment without an order is paid back.
- `follow_visits` collects the pages of a visit. A visit ends when its visitor does not click for half an hour.
- `raise_alarms` counts the failed logins of each visitor in ten minutes, and reports three or more, once.

Run it: python examples/web_shop.py
"""

import sys
import tempfile
import time
from collections.abc import Iterable
from typing import Any

from streams_runtime import (
    JSON,
    LONG,
    STRING,
    Application,
    JoinWindows,
    KStream,
    LocalRun,
    Materialized,
    NewTopic,
    RecordProducer,
    Serde,
    SessionWindowedSerde,
    SessionWindows,
    StreamsBuilder,
    Suppressed,
    TimeWindowedSerde,
    TimeWindows,
    Topology,
    open_log,
    read_topic,
)

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
GRACE_MS = 5 * MINUTE_MS  # records come at most this much out of order
PAYMENT_MS = 30 * MINUTE_MS
VISIT_GAP_MS = 30 * MINUTE_MS
ALARM_MS = 10 * MINUTE_MS
FAILED_LOGINS = 3

VALUES: dict[str, Serde[Any]] = {"products": JSON, "orders": JSON, "payments": LONG, "clicks": STRING}
DAY: list[tuple[str, str, str, Any]] = [  # time of day, topic, key, value
    ("08:00", "products", "tea", {"cents": 450}),
    ("08:00", "products", "pot", {"cents": 2500}),
    ("09:01", "clicks", "ada", "home"),
    ("09:03", "clicks", "mallory", "failed login"),
    ("09:04", "clicks", "mallory", "failed login"),
    ("09:04", "clicks", "ada", "tea"),
    ("09:05", "orders", "o1", {"customer": "ada", "product": "tea", "number": 2}),
    ("09:07", "payments", "o1", 900),
    ("09:08", "clicks", "mallory", "failed login"),
    ("09:09", "clicks", "grace", "failed login"),
    ("09:10", "clicks", "grace", "pot"),
    ("09:12", "orders", "o2", {"customer": "grace", "product": "pot", "number": 1}),  # never paid
    ("09:20", "payments", "o9", 300),  # never ordered
    ("09:34", "clicks", "ada", "pot"),  # 30 minutes after her last click: the same visit
    ("10:15", "clicks", "ada", "home"),  # 41 minutes: another visit
    ("10:20", "orders", "o3", {"customer": "ada", "product": "pot", "number": 1}),  # closes the windows of o2 and o9
    ("10:30", "payments", "o3", 2500),
]


def settle_orders(builder: StreamsBuilder) -> None:
    # each instance has the whole table, so an order finds its product whatever its own key is
    products = builder.global_table("products", STRING, JSON, store="products")
    orders = builder.stream("orders", STRING, JSON).join(
        products,
        lambda order, product: {**order, "cents": order["number"] * product["cents"]},
        key_selector=lambda _id, order: order["product"],
    )
    payments = builder.stream("payments", STRING, LONG)
    settled = (
        orders.outer_join(
            payments,
            lambda order, cents: {"order": order, "paid": cents},
            # `before_ms`: a payment that overtakes its order waits for it
            JoinWindows(before_ms=GRACE_MS, after_ms=PAYMENT_MS, grace_ms=GRACE_MS),
            value_serde=JSON,
            store="orders-and-payments",
        )
        .split(name="settled-")
        .branch(lambda _id, pair: pair["paid"] is None, name="unpaid")
        .branch(lambda _id, pair: pair["order"] is None, name="unknown")
        .default_branch(name="paid")
    )
    settled["settled-paid"].map_values(lambda pair: pair["order"]).to("paid-orders", STRING, JSON)
    settled["settled-unpaid"].map_values(lambda pair: pair["order"]).to("reminders", STRING, JSON)
    settled["settled-unknown"].map_values(lambda pair: pair["paid"]).to("refunds", STRING, LONG)


def follow_visits(clicks: KStream[str, str]) -> None:
    visits = (
        clicks.group_by_key()
        .windowed_by(SessionWindows(VISIT_GAP_MS, grace_ms=GRACE_MS))
        .aggregate(
            list,
            lambda _visitor, page, pages: sorted({*pages, page}),
            merger=lambda _visitor, one, other: sorted({*one, *other}),  # a late click can join two visits
            value_serde=JSON,
            # Longer than gap and grace: if a late click extends a visit at the last moment, its old times are still
            # in the store, and are removed.
            store=Materialized("visits", retention_ms=HOUR_MS),
        )
    )
    # a visit that grows is removed, with the value None, and added with its new times
    visits.to_stream().to("visits", SessionWindowedSerde(STRING), JSON)


def raise_alarms(clicks: KStream[str, str]) -> None:
    failed = (
        clicks.group_by_key()
        .windowed_by(TimeWindows(ALARM_MS, grace_ms=GRACE_MS))
        # Other clicks count as 0 and are not filtered out, because each click moves stream time on. Otherwise an alarm
        # would wait for the next failed login of anybody.
        .aggregate(
            int, lambda _visitor, page, count: count + (page == "failed login"), value_serde=LONG, store="failed"
        )
        .suppress(Suppressed.until_window_closes(), name="last-count")
    )
    alarms = failed.to_stream().filter(lambda _window, count: count >= FAILED_LOGINS)
    alarms.to("alarms", TimeWindowedSerde(STRING, ALARM_MS), LONG)


def topology() -> Topology:
    builder = StreamsBuilder()
    clicks = builder.stream("clicks", STRING, STRING)
    settle_orders(builder)
    follow_visits(clicks)
    raise_alarms(clicks)
    return builder.build()


def main(directory: str) -> None:
    app = Application(
        topology(),
        {
            "application.id": "web-shop",
            "bootstrap.servers": f"embedded:{directory}/log",
            "state.dir": f"{directory}/state",
            "processing.guarantee": "exactly_once_v2",
        },
    )
    log = open_log(app.configs.bootstrap_servers)
    # one partition each, so that all records of a task share one stream time, and this short day closes its windows
    results = ["paid-orders", "reminders", "refunds", "visits", "alarms"]
    log.create_topics([NewTopic(topic, partitions=1) for topic in [*VALUES, *results]])
    for topic, value_serde in VALUES.items():
        with RecordProducer(log, STRING, value_serde) as records:
            for clock, its_topic, key, value in DAY:
                if its_topic == topic:
                    records.send(topic, key, value, timestamp_ms=to_ms(clock))

    with LocalRun(app) as run:
        run.wait_until_caught_up()

    for order_id, order in pairs(read_topic(log, "paid-orders", STRING, JSON)):
        print(f"paid: {order_id} of {order['customer']}, {order['cents']} cents")
    for order_id, order in pairs(read_topic(log, "reminders", STRING, JSON)):
        print(f"reminder: {order_id} of {order['customer']}, {order['cents']} cents")
    for order_id, cents in pairs(read_topic(log, "refunds", STRING, LONG)):
        print(f"refund: {order_id}, {cents} cents")
    visits = dict(pairs(read_topic(log, "visits", SessionWindowedSerde(STRING), JSON)))
    for visit, pages in visits.items():
        if pages is not None:
            print(f"visit: {visit.key} from {to_text(visit.start_ms)} to {to_text(visit.end_ms)}, {', '.join(pages)}")
    for window, count in pairs(read_topic(log, "alarms", TimeWindowedSerde(STRING, ALARM_MS), LONG)):
        print(f"alarm: {window.key} from {to_text(window.start_ms)}, {count} failed logins in ten minutes")


def pairs(records: Iterable[Any]) -> list[tuple[Any, Any]]:
    return [(record.key, record.value) for record in records]


# DAY was today, and its 11:00 was at the last full hour: a log deletes records that are old by its clock
MIDNIGHT_MS = (int(time.time() * 1000) // HOUR_MS - 11) * HOUR_MS


def to_ms(clock: str) -> int:
    hours, minutes = clock.split(":")
    return MIDNIGHT_MS + int(hours) * HOUR_MS + int(minutes) * MINUTE_MS


def to_text(time_ms: int) -> str:
    hours, minutes = divmod((time_ms - MIDNIGHT_MS) // MINUTE_MS, 60)
    return f"{hours:02}:{minutes:02}"


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp())
