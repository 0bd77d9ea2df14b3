"""`examples/web_shop.py` computes what a plain computation over all its records computes, for its own day and for any
other.

The computation below knows neither streams nor windows: it has all records at once, in no order. So the results must
not depend on the order in which the records come, as long as none comes later than the grace.
"""

import random
import runpy
from collections import Counter, defaultdict
from typing import Any, NamedTuple

from streams_runtime import JSON, LONG, STRING, SessionWindowedSerde, TimeWindowedSerde, TopologyTestDriver
from tests.checkout import ROOT

MINUTE_MS = 60_000
GRACE_MS, PAYMENT_MS, GAP_MS, ALARM_MS = 5 * MINUTE_MS, 30 * MINUTE_MS, 30 * MINUTE_MS, 10 * MINUTE_MS
FAILED_LOGINS = 3
PRICES = {"tea": 450, "pot": 2500}

SHOP: dict[str, Any] = runpy.run_path(str(ROOT / "examples" / "web_shop.py"))


class Event(NamedTuple):
    time_ms: int
    topic: str
    key: str
    value: Any


class Results(NamedTuple):
    """Each record of a result topic, and how often it is there; of `visits` the newest value of each key."""

    paid: Counter[Any]
    reminders: Counter[Any]
    refunds: Counter[Any]
    alarms: Counter[Any]
    visits: dict[Any, Any]


def computed(events: list[Event]) -> Results:
    """The results once all windows are closed."""
    orders = [
        (event.time_ms, event.key, event.value["customer"], event.value["number"] * PRICES[event.value["product"]])
        for event in events
        if event.topic == "orders" and event.value["product"] in PRICES
    ]
    payments = [(event.time_ms, event.key, event.value) for event in events if event.topic == "payments"]
    pairs = [
        (order, payment)
        for order in orders
        for payment in payments
        if order[1] == payment[1] and -GRACE_MS <= payment[0] - order[0] <= PAYMENT_MS
    ]
    settled = [order for order, _ in pairs], [payment for _, payment in pairs]

    failed: Counter[tuple[str, int]] = Counter()
    clicks: defaultdict[str, list[tuple[int, str]]] = defaultdict(list)
    for event in events:
        if event.topic == "clicks":
            clicks[event.key].append((event.time_ms, event.value))
            failed[event.key, event.time_ms // ALARM_MS * ALARM_MS] += event.value == "failed login"
    return Results(
        Counter(order[1:] for order in settled[0]),
        Counter(order[1:] for order in orders if order not in settled[0]),
        Counter(payment[1:] for payment in payments if payment not in settled[1]),
        Counter((*window, count) for window, count in failed.items() if count >= FAILED_LOGINS),
        {(visitor, *times): pages for visitor, each in clicks.items() for times, pages in visits_of(each)},
    )


def visits_of(clicks: list[tuple[int, str]]) -> list[tuple[tuple[int, int], list[str]]]:
    visits: list[list[tuple[int, str]]] = []
    for click in sorted(clicks):
        if visits and click[0] - visits[-1][-1][0] <= GAP_MS:
            visits[-1].append(click)
        else:
            visits.append([click])
    return [((visit[0][0], visit[-1][0]), sorted({page for _, page in visit})) for visit in visits]


def streamed(events: list[Event]) -> Results:
    with TopologyTestDriver(SHOP["topology"]()) as driver:
        inputs = {topic: driver.create_input_topic(topic, STRING, serde) for topic, serde in SHOP["VALUES"].items()}
        for product, cents in PRICES.items():
            inputs["products"].pipe_input(product, {"cents": cents}, timestamp_ms=0)
        for event in events:
            inputs[event.topic].pipe_input(event.key, event.value, timestamp_ms=event.time_ms)

        def read(topic: str, keys: Any, values: Any) -> list[tuple[Any, Any]]:
            return driver.create_output_topic(topic, keys, values).read_key_values()

        def orders(topic: str) -> Counter[Any]:
            return Counter((key, order["customer"], order["cents"]) for key, order in read(topic, STRING, JSON))

        alarms = read("alarms", TimeWindowedSerde(STRING, ALARM_MS), LONG)
        visits = dict(read("visits", SessionWindowedSerde(STRING), JSON))
        return Results(
            orders("paid-orders"),
            orders("reminders"),
            Counter(read("refunds", STRING, LONG)),
            Counter((window.key, window.start_ms, count) for window, count in alarms),
            {(visit.key, visit.start_ms, visit.end_ms): pages for visit, pages in visits.items() if pages is not None},
        )


def random_day(chance: random.Random) -> list[Event]:
    """400 records in the order in which they come. None is later than the grace. The ids of orders change each hour, so
    that orders and payments of one id are minutes and not days apart.
    """
    events, now_ms = [], 60 * MINUTE_MS
    for _ in range(400):
        now_ms += chance.choice([0, 0, 1, 1, 2, 5, 10, 31]) * MINUTE_MS  # whole minutes meet the bounds of windows
        time_ms = now_ms - chance.randint(0, GRACE_MS // MINUTE_MS) * MINUTE_MS
        order_id = f"o{now_ms // (60 * MINUTE_MS)}-{chance.randrange(4)}"
        topic = chance.choice(["orders", "orders", "payments", "clicks", "clicks", "clicks"])
        if topic == "orders":
            product = chance.choice([*PRICES, "unknown"])
            order = {"customer": chance.choice(["ada", "grace"]), "product": product, "number": chance.randint(1, 3)}
            events.append(Event(time_ms, topic, order_id, order))
        elif topic == "payments":
            events.append(Event(time_ms, topic, order_id, chance.randint(1, 9999)))
        else:
            page = chance.choice(["home", "tea", "failed login", "failed login"])
            events.append(Event(time_ms, topic, chance.choice(["ada", "grace", "mallory"]), page))
    # Records of the next day close all windows. Their own windows stay open: they make a visit, and nothing else.
    next_day_ms = now_ms + 24 * 60 * MINUTE_MS
    events.append(Event(next_day_ms, "orders", "last", {"customer": "ada", "product": "tea", "number": 1}))
    events.append(Event(next_day_ms, "clicks", "last", "home"))
    return events


def test_should_compute_what_all_records_at_once_give() -> None:
    seed = random.randrange(1 << 32)
    chance = random.Random(seed)
    # two days of five have no alarm; a day must have each kind of result
    days = (random_day(chance) for _ in range(100))
    events, expected = next((day, results) for day in days if all(results := computed(before_the_end(day))))

    assert streamed(events) == expected, f"seed {seed}"


def before_the_end(events: list[Event]) -> list[Event]:
    return [event for event in events if (event.topic, event.key) != ("orders", "last")]
