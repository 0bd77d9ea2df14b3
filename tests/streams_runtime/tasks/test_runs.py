"""It makes no difference how many records a task processes in a run: whatever the topology, the records and the errors.

Two tasks get the same records in the same portions; one of them processes one record at a time. Everything that can be
seen of them has to be equal: see `random_topologies`.
"""

from itertools import repeat

from hypothesis import example, given
from hypothesis import strategies as st

from tests.examples import share
from tests.streams_runtime.tasks.random_topologies import PORTIONS, TOPOLOGIES, Portion, watched_tasks


def check(steps: list[tuple[str, int]], portions: list[Portion], *, exactly_once: bool, cache_bytes: int) -> None:
    with watched_tasks(steps, exactly_once=exactly_once, cache_bytes=cache_bytes) as watched:
        together, alone = watched(), watched()
        for records, most, commits in portions:
            taken = together.take(records, repeat(most), commits=commits)
            assert taken == alone.take(records, repeat(most), commits=commits, one_by_one=True)
        assert together.seen() == alone.seen()


@example([("flat_map_values", each) for each in range(25)] + [("to out", 25)], [([(b"a", b"x", 1)], 5, True)], True, 0)
@example([("to many", 0), ("to out", 0)], [([(None, None, 0)] * 2, 1, False)], False, 0)
@share(0.5)
@given(TOPOLOGIES, PORTIONS, st.booleans(), st.sampled_from([0, 0, 700, 1 << 20]))
def test_should_do_to_several_records_what_is_done_to_one_after_the_other(
    steps: list[tuple[str, int]], portions: list[Portion], exactly_once: bool, cache_bytes: int
) -> None:
    check(steps, portions, exactly_once=exactly_once, cache_bytes=cache_bytes)


IN_TURNS: list[Portion] = [([(b"a", b"%d" % at_ms, at_ms) for at_ms in (1, 5, 3, 6, 9, 8)], 6, True)] * 2


@example([], IN_TURNS, "join", 0)
@share(0.5)
@given(TOPOLOGIES, PORTIONS, st.sampled_from(["join", "left join"]), st.sampled_from([0, 1 << 20]))
def test_should_take_turns_between_partitions_as_records_do_one_by_one(
    steps: list[tuple[str, int]], portions: list[Portion], join: str, cache_bytes: int
) -> None:
    joined = [(join, 0), ("to out", 1), ("peek", 1), *steps]
    check(joined, portions, exactly_once=True, cache_bytes=cache_bytes)
