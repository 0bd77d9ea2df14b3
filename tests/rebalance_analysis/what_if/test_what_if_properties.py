"""Whatever is changed in whatever recorded round: the round runs, and what is undone leaves no trace."""

import json
from functools import cache

from hypothesis import given
from hypothesis import strategies as st

from assignor.recording import RecordedRebalance, parse_recorded_rebalance
from rebalance_analysis.rerun import RerunRebalance, parse_recorded, run_recorded
from rebalance_analysis.what_if import (
    AddedInstances,
    Changes,
    changed,
    changes_document,
    changes_from_document,
    difference,
    difference_document,
)
from rebalance_analysis.what_if.changed_rebalance import changed_document
from rebalance_analysis.what_if.group_changes import OpenGroup
from tests.examples import share
from tests.recorded import RECORDINGS, documents

FEW = share(0.6)


@cache
def rounds() -> list[RecordedRebalance]:
    return [parse_recorded_rebalance(document) for name in RECORDINGS for document in documents(name)]


def processes(line: RecordedRebalance) -> list[str]:
    return [str(process) for process in OpenGroup(line.snapshot).processes()]


def input_topics(line: RecordedRebalance) -> list[str]:
    subtopologies = line.snapshot.topology.subtopologies
    internal = {topic.name for each in subtopologies for topic in each.repartition_source_topics}
    return sorted({topic for each in subtopologies for topic in each.source_topics} - internal)


@st.composite
def questions(draw: st.DrawFn) -> tuple[RecordedRebalance, Changes]:
    """A recorded round and changes that can be met in it: topics that are joined keep one count."""
    line = draw(st.sampled_from(rounds()))
    there = processes(line)
    removed = draw(st.lists(st.sampled_from(there), max_size=len(there) - 1, unique=True))
    left = [process for process in there if process not in removed]
    count = draw(st.integers(0, 12))
    added = st.builds(AddedInstances, st.integers(1, 3), st.integers(1, 4), st.just({}))
    return line, Changes(
        assignor=draw(st.sampled_from([None, "HighAvailabilityTaskAssignor", "LegacyStickyTaskAssignor"])),
        configs=draw(
            st.fixed_dictionaries(
                {},
                optional={
                    "num.standby.replicas": st.integers(0, 3),
                    "max.warmup.replicas": st.integers(1, 8),
                    "acceptable.recovery.lag": st.integers(0, 100_000),
                },
            )
        ),
        add_instances=tuple(draw(st.lists(added, max_size=2))),
        remove=tuple(removed),
        threads=draw(st.dictionaries(st.sampled_from(["*", *left]), st.integers(1, 4), max_size=2)),
        partitions=dict.fromkeys(input_topics(line), count) if count else {},
        lags=draw(st.dictionaries(st.just("*"), st.integers(0, 50_000))),
    )


@FEW
@given(questions())
def test_should_run_whatever_was_changed(question: tuple[RecordedRebalance, Changes]) -> None:
    line, changes = question
    before, after = run_recorded(line), run_recorded(changed(line, changes))
    assert isinstance(after, RerunRebalance)
    assert after.result.error is None
    assert after.result.placement is not None
    json.dumps(difference_document(difference(before, after)))


@FEW
@given(questions())
def test_should_be_the_round_that_the_written_line_has(
    question: tuple[RecordedRebalance, Changes],
) -> None:
    line, changes = question
    after = changed(line, changes)
    written = parse_recorded(json.loads(json.dumps(changed_document(after, changes))))
    assert isinstance(written, RecordedRebalance)
    assert written.snapshot == after.snapshot
    assert run_recorded(written).output() == run_recorded(after).output()
    assert changes_from_document(changes_document(changes)) == changes


@FEW
@given(st.sampled_from(rounds()), st.integers(1, 4), st.integers(1, 3))
def test_should_be_the_recorded_round_when_what_came_goes(line: RecordedRebalance, threads: int, count: int) -> None:
    there = processes(line)
    grown = changed(line, Changes(add_instances=(AddedInstances(count, threads),)))
    new = [process for process in processes(grown) if process not in there]
    assert len(new) == count
    again = changed(grown, Changes(remove=tuple(new)))
    assert again == changed(line, Changes())
    assert list(again.snapshot.members) == list(line.snapshot.members)


@FEW
@given(st.sampled_from(rounds()), st.integers(1, 4))
def test_should_be_the_recorded_round_again_when_new_threads_go(line: RecordedRebalance, more: int) -> None:
    threads = {str(process): len(members) for process, members in OpenGroup(line.snapshot).processes().items()}
    grown = changed(line, Changes(threads={process: count + more for process, count in threads.items()}))
    assert len(grown.snapshot.members) == len(line.snapshot.members) + more * len(threads)
    assert changed(grown, Changes(threads=threads)) == changed(line, Changes())
