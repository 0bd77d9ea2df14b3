"""The view of the cluster in a line: a polled view if it explains the rebalance, else a view between two polls."""

from dataclasses import replace
from typing import Any

import pytest

from assignor.pipeline.snapshot import ClusterView, RebalanceSnapshot
from assignor.recording import RecordedOutput, parse_recorded_rebalance
from kafka_groups.recorder.leader_view import LeaderView, PolledViews, leader_view, reported_sums
from tests.known import known
from tests.recorded import RECORDINGS, documents


class RecordedView:
    """A recorded rebalance: its members and result apart from what its leader saw of the cluster."""

    def __init__(self, document: dict[str, Any]) -> None:
        recorded = parse_recorded_rebalance(document)
        self.now_ms = recorded.now_ms
        self.snapshot: RebalanceSnapshot = recorded.snapshot
        self.output: RecordedOutput = replace(known(recorded.output), created_topics=None)
        self.seen = ClusterView(
            recorded.snapshot.cluster,
            recorded.snapshot.existing_internal_topics,
            recorded.snapshot.changelog_end_offsets,
            recorded.snapshot.committed_offsets,
            created_internal_topics=recorded.snapshot.created_internal_topics,
        )

    def found(self, views: PolledViews) -> LeaderView:
        blind = self.snapshot.seen(ClusterView(self.snapshot.cluster))
        return leader_view(blind, self.now_ms, self.output, views, lambda: True)


REBALANCES = [
    pytest.param(document, id=document["id"])
    for name in RECORDINGS
    for document in documents(name)
    if "led_by" not in document
]
WITH_LAGS = [
    pytest.param(document, id=document["id"])
    for name in ("recordings/wcflow.jsonl.gz", "recordings/threads2.jsonl.gz")
    for document in documents(name)
    if document["input"]["changelog_end_offsets"]
]


def moved(view: ClusterView, by: int) -> ClusterView:
    """Every end offset later, or earlier but not below 0."""
    ends = known(view.changelog_end_offsets).items()
    return replace(
        view, changelog_end_offsets={topic: tuple(max(end + by, 0) for end in of_topic) for topic, of_topic in ends}
    )


def after_creation(recorded: RecordedView) -> ClusterView:
    """The same with all internal topics that the rebalance made ready, empty ones when they are new."""
    existing = dict(recorded.seen.existing_internal_topics)
    ends = dict(recorded.seen.changelog_end_offsets or {})
    some = next(iter(recorded.snapshot.cluster.topics.values()))
    for topic, partitions in recorded.output.internal_topics.items():
        if topic not in existing:
            made = (recorded.snapshot.created_internal_topics or {}).get(topic)
            existing[topic] = made or replace(some, partitions=partitions, replicas=None, leaders=None)
            ends[topic] = (5,) * partitions
    return replace(
        recorded.seen, existing_internal_topics=existing, changelog_end_offsets=ends, created_internal_topics=None
    )


@pytest.mark.parametrize("document", REBALANCES)
def test_should_take_the_first_poll_when_it_explains_the_rebalance(document: dict[str, Any]) -> None:
    rebalance = RecordedView(document)
    found = rebalance.found(PolledViews((rebalance.seen,), before=rebalance.seen))
    assert found == LeaderView(rebalance.seen)


@pytest.mark.parametrize("document", REBALANCES)
def test_should_take_topics_that_were_not_there_before_as_created(document: dict[str, Any]) -> None:
    rebalance = RecordedView(document)
    found = rebalance.found(PolledViews((after_creation(rebalance),), before=rebalance.seen))
    assert found.differences == ()
    assert found.view.existing_internal_topics == rebalance.seen.existing_internal_topics


@pytest.mark.parametrize("document", WITH_LAGS)
def test_should_find_offsets_between_the_polls_when_more_was_written_meanwhile(document: dict[str, Any]) -> None:
    rebalance = RecordedView(document)
    before, after = moved(rebalance.seen, -200), moved(rebalance.seen, 1_000)
    found = rebalance.found(PolledViews((after,), before=before))
    assert found.differences == ()
    lows, ends, highs = (known(view.changelog_end_offsets) for view in (before, found.view, after))
    for topic, of_topic in ends.items():
        assert all(low <= end <= high for low, end, high in zip(lows[topic], of_topic, highs[topic], strict=True))


def test_should_know_that_there_was_no_rebalance_before_without_a_poll() -> None:
    rebalance = RecordedView(documents("recordings/static.jsonl.gz")[0])
    assert reported_sums(rebalance.snapshot) == {}
    found = rebalance.found(PolledViews((after_creation(rebalance),), before=None, may_create=True))
    assert (found.description, found.differences) == ("internal topics as created in this rebalance", ())
    assert found.view.existing_internal_topics == {}


def test_should_keep_the_first_poll_and_say_what_differs_when_no_view_explains_the_rebalance() -> None:
    rebalance = RecordedView(documents("recordings/static.jsonl.gz")[1])
    other = replace(rebalance.snapshot.configs, num_standby_replicas=2)
    rebalance.snapshot = replace(rebalance.snapshot, configs=other)
    found = rebalance.found(PolledViews((rebalance.seen,), before=rebalance.seen))
    assert found.view == rebalance.seen
    assert found.description == ""
    assert any("standby tasks" in difference for difference in found.differences)


def test_should_stop_searching_when_the_time_is_over() -> None:
    rebalance = RecordedView(documents("recordings/static.jsonl.gz")[1])
    rebalance.snapshot = replace(
        rebalance.snapshot, configs=replace(rebalance.snapshot.configs, num_standby_replicas=2)
    )
    turns = iter([True] * 20 + [False] * 100)
    blind = rebalance.snapshot.seen(ClusterView(rebalance.snapshot.cluster))
    views = PolledViews((moved(rebalance.seen, 10_000),), before=rebalance.seen)
    found = leader_view(blind, rebalance.now_ms, rebalance.output, views, lambda: next(turns))
    assert found.view == views.after
    assert found.differences
