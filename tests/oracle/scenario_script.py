"""What is done to a group, the same under whoever leads it, and the table of what came of it."""

from collections.abc import Sequence
from itertools import zip_longest

from tests.oracle.scenario import EventResult, GroupScenario

LINES, KEYS = "led-lines", "led-keys"
LINES_PARTITIONS, KEYS_PARTITIONS = 3, 4
LONGEST_CATCHING_UP_S = 40.0
LONGEST_LEADERLESS_S = 40.0

WORDS_TASKS = frozenset(f"{subtopology}_{number}" for subtopology in (0, 1) for number in range(LINES_PARTITIONS))
KEYS_TASKS = frozenset(f"0_{number}" for number in range(KEYS_PARTITIONS))

WORDS_CONFIGS = {
    "processing.guarantee": "exactly_once_v2",
    "num.standby.replicas": "1",
    "acceptable.recovery.lag": "1000000000",  # however much has flowed, all are caught up, and nothing depends on when
    "session.timeout.ms": "60000",  # longer than an instance takes to stop and start again, however busy the machine
}
SHORT_LIFE_CONFIGS = {
    "session.timeout.ms": "5000",
    "producer.transaction.timeout.ms": "5000",  # what it left open keeps its heirs waiting as long
}
"""Of the one that is killed: how long it takes until it is missed."""
KEYS_CONFIGS = {"acceptable.recovery.lag": "0", "probing.rebalance.interval.ms": "60000"}


def members_come_and_go(group: GroupScenario) -> None:
    """Static members under exactly-once, while lines flow: 1 to 3, a crash, a rolling bounce, the leader's, 3 to 2."""
    group.event("a starts", lambda: _begin(group))
    group.event("b starts", lambda: group.start("b", SHORT_LIFE_CONFIGS))
    group.event("c starts", lambda: group.start("c"))
    group.event("SIGKILL of b", lambda: group.kill("b"))
    group.event("b starts again", lambda: group.start("b"))
    for name in "abc":
        group.event(f"bounce of {name}", lambda name=name: group.bounce(name))  # type: ignore[misc]
    group.event("leader restarts", lambda: _restart_leader(group))
    group.event("c leaves", lambda: group.leave("c"))
    if group.lead is not None:
        group.event("leader hands back", group.hand_back)


def warm_ups_take_over(group: GroupScenario) -> None:
    """Who starts without state gets warm-ups, and the tasks themselves with the probing rebalance, a minute later."""
    group.event("a starts", lambda: _begin(group))
    group.event("b starts, warm-ups", lambda: group.start("b"), probing=True)
    wait_until_caught_up(group, "b")
    group.event("probing rebalance", lambda: None)
    group.event("one thread more in a", lambda: group.add_thread("a"))
    group.event("a leaves", lambda: group.leave("a"))


def wait_until_caught_up(group: GroupScenario, name: str) -> None:
    """Until all its stores are as their changelogs are."""

    def behind() -> str | None:
        lags = [lag for partitions in group.instances[name].lags().values() for lag in partitions.values()]
        return f"behind by {max(lags)}" if any(lags) else None

    group.wait(behind, "no lag", LONGEST_CATCHING_UP_S)


_TITLES = (
    "event",
    "rebalances own leader",
    "rebalances Python leader",
    "caused by the leader for itself",
    "tasks moved",
    "seconds",
)


def table(pairs: Sequence[tuple[str, GroupScenario, GroupScenario]]) -> str:
    """Side by side: title, the group under its own leader, the group under the Python leader."""
    rows: list[tuple[str, ...]] = [_TITLES]
    for title, own, python in pairs:
        rows.append((f"-- {title}", "", "", "", "", ""))
        rows += [_row(*results) for results in zip_longest(own.results, python.results)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)


def _row(own: EventResult | None, python: EventResult) -> tuple[str, ...]:
    """`own` None: there is no such event under an own leader."""
    moved = " ".join(python.moved) or "none"
    if own is None:
        return python.name, "-", str(python.rounds), f"- | {python.own}", moved, f"- | {python.seconds:.1f}"
    return (
        own.name,
        str(own.rounds),
        str(python.rounds),
        f"{own.own} | {python.own}",
        moved if own.moved == python.moved else f"{' '.join(own.moved) or 'none'} | {moved}",
        f"{own.seconds:.1f} | {python.seconds:.1f}",
    )


def _begin(group: GroupScenario) -> None:
    """Who comes first leads."""
    if group.lead is not None:
        group.lead_alone()
    group.start("a")


def _restart_leader(group: GroupScenario) -> None:
    """A JVM leader is closed and started again; the Python leader is killed. Over when it leads again."""
    before = group.leader()
    if group.lead is None:
        group.bounce(group.leading_instance())
    else:
        group.lead.kill()
        group.lead.start()
    group.wait(lambda: "the leader is not back" if group.leader() == before else None, "leader", LONGEST_LEADERLESS_S)
