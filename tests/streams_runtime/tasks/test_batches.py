"""Functions and processors that take batches: whatever the topology, records come out as they do one by one.

Two tasks get the same records in the same portions; one of them may not make batches. What is in topics and stores,
what handlers were asked and what is committed has to be equal, and each function of a node has to hear of the same
records in the same order. Two things may differ: which of two nodes gets a record first, and so the order in which
handlers are asked about records of different nodes; in a topology with branches, also of the same node.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import repeat
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from streams_runtime.processors import batch_node
from streams_runtime.processors.batch_node import reasons_against_batches
from streams_runtime.processors.nodes import NodeRunner
from tests.examples import share
from tests.streams_runtime.tasks.random_topologies import KEYS, STEPS, VALUES, Portion, watched_tasks

OF_BATCHES = ("map_batches", "map_values_batches", "filter_batches", "other number of rows", "process_batch")
ALL_STEPS = [step for step in STEPS if step not in ("split", "to many")] + [*OF_BATCHES] * 3

IN_LINE = st.lists(st.sampled_from(ALL_STEPS), min_size=1, max_size=6)
BRANCHED = st.lists(st.tuples(st.sampled_from(ALL_STEPS), st.integers(0, 3)), min_size=2, max_size=7)
TIMES = st.integers(-1, 12)
GOOD = st.tuples(st.sampled_from([b"a", b"b", b"c"]), st.none() | st.sampled_from([b"", b"x", b"xy", b"xyz"]), TIMES)
ANY = st.tuples(KEYS, VALUES, TIMES)


def portions_of(records: st.SearchStrategy[Any]) -> st.SearchStrategy[list[Portion]]:
    """Records that are written, how many are processed at a time, and whether there is a commit after it."""
    portion = st.tuples(st.lists(records, max_size=12), st.sampled_from([1, 2, 5, 12]), st.booleans())
    return st.lists(portion, min_size=1, max_size=3)


def check(
    steps: list[tuple[str, int]],
    portions: list[Portion],
    *,
    exactly_once: bool,
    cache_bytes: int,
    has_branches: bool = False,
) -> None:
    with (
        watched_tasks(steps, exactly_once=exactly_once, cache_bytes=cache_bytes) as watched,
        pytest.MonkeyPatch.context() as patch,
    ):
        batched = watched()
        taken = [batched.take(records, repeat(count), commits=commits) for records, count, commits in portions]
        seen = batched.seen()
        patch.setattr(batch_node, "reasons_against_batches", no_batches)
        plain = watched()
        for (records, count, commits), had in zip(portions, taken, strict=True):
            turns = [processed for processed, _ in had[0]]
            assert all(done == count or fired for done, fired in had[0][:-1]), "a turn ends early only to punctuate"
            assert had == plain.take(records, [*turns, count], commits=commits)
        expected = plain.seen()
    failed, had_to_fail = by_origin(seen.pop("failures")), by_origin(expected.pop("failures"))
    if has_branches:
        for found in (*failed.values(), *had_to_fail.values()):
            found.sort(key=repr)
    assert failed == had_to_fail
    assert by_function(seen.pop("heard")) == by_function(expected.pop("heard"))
    assert seen == expected


def no_batches(below_source: Sequence[NodeRunner]) -> Mapping[str, str]:
    """Each node that takes batches gets one record at a time."""
    return dict.fromkeys(reasons_against_batches(below_source), "not here")


def by_origin(failures: Any) -> dict[tuple[str, str], list[object]]:
    """By topic and node; the topic is "" for punctuations.

    A turn that ends early leaves unreadable records behind it to the next turn. If a batch goes through two nodes that
    take batches, a record may fail in the first node before an earlier record fails below the second.
    """
    found: dict[tuple[str, str], list[object]] = defaultdict(list)
    for metadata, node, *failure in failures:
        found[metadata.topic, node].append((metadata, *failure))
    return found


def by_function(heard: Any) -> dict[str, list[object]]:
    calls: dict[str, list[object]] = defaultdict(list)
    for name, *arguments in heard:
        calls[name].append(arguments)
    return calls


def in_line(steps: list[str]) -> Iterator[tuple[str, int]]:
    """Each step goes on from the stream that the one before has made."""
    streams = 1
    for step in steps:
        yield step, streams - 1
        streams += step not in ("to out", "for_each")


FLAT = ["flat_map", "map_batches", "to out", "process"]


@example(["filter", "map_batches"], [([(b"a", b"xy", 1), (b"a", b"x", 9)], 5, True)], True, 0)
@example(["other number of rows", "map_values", "join"], [([(b"a", b"xy", 0)], 1, False)], False, 0)
@example(["other number of rows", "join"], [([(b"a", b"xy", 0)], 1, False)], False, 0)
@example(FLAT, [([(b"a", b"x", 1), (b"a", b"oops", 2), (b"b", b"xy", 3)], 5, True)], True, 0)
@example(["map_batches", "map_values", "to out"], [([(b"a", b"oops", 1), (b"a", b"x", 2)] * 3, 12, True)], False, 0)
@example(["map_batches", "process_batch", "join"], [([(b"a", None, 0), (None, b"oops", 0)], 2, False)], False, 0)
@example(["map_values_batches", *["flat_map_values"] * 25, "to out"], [([(b"a", b"x", 1)] * 2, 5, True)], True, 0)
@given(IN_LINE, portions_of(ANY), st.booleans(), st.sampled_from([0, 1 << 20]))
def test_should_do_to_batches_what_is_done_to_records(
    steps: list[str], portions: list[Portion], exactly_once: bool, cache_bytes: int
) -> None:
    check(list(in_line(steps)), portions, exactly_once=exactly_once, cache_bytes=cache_bytes)


MERGED = [("map_batches", 0), ("map", 0), ("merge", 1), ("map_values_batches", 3), ("to out", 4), ("count", 4)]


@example(MERGED, [([(b"a", b"x", 5), (b"b", b"xy", 3)] * 3, 12, True)], True, 0)
@example([("process with a store", 0), ("map_batches", 0)], [([(b"a", b"x", 0)] * 2, 2, False)], False, 0)
@example([("map_batches", 0), ("to out", 1), ("to out", 0)], [([(b"a", b"xy", 1)] * 3, 12, True)], True, 0)
@given(BRANCHED, portions_of(ANY), st.booleans(), st.sampled_from([0, 1 << 20]))
def test_should_keep_the_order_that_others_can_see(
    steps: list[tuple[str, int]], portions: list[Portion], exactly_once: bool, cache_bytes: int
) -> None:
    check(steps, portions, exactly_once=exactly_once, cache_bytes=cache_bytes, has_branches=True)


IN_TURNS: list[Portion] = [([(b"a", b"%d" % at_ms, at_ms) for at_ms in (1, 5, 3, 6, 9, 8)], 6, True)] * 2


@example(["map_values_batches"], IN_TURNS, "join")
@share(0.5)
@given(IN_LINE, portions_of(GOOD), st.sampled_from(["join", "left join"]))
def test_should_end_a_batch_at_the_turn_of_another_partition(
    steps: list[str], portions: list[Portion], join: str
) -> None:
    lines = [
        ("map_values_batches", 0),
        (join, 1),
        ("to out", 2),
        *((step, 2 + which) for step, which in in_line(steps)),
    ]
    check(lines, portions, exactly_once=True, cache_bytes=0)


@share(0.5)
@given(portions_of(ANY), st.booleans())
def test_should_write_columns_to_the_partitions_of_their_keys(portions: list[Portion], exactly_once: bool) -> None:
    check([("map_values_batches", 0), ("to many", 1)], portions, exactly_once=exactly_once, cache_bytes=0)
