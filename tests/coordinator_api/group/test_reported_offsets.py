from assignor.types import TaskId
from coordinator_api.group.reported_offsets import SHORTEST_SPAN_MS, ReportedOffsets

A, B = TaskId(0, 0), TaskId(0, 1)


def test_should_know_when_each_task_last_made_progress() -> None:
    first = ReportedOffsets().after_heartbeat({A: 5, B: 7}, 0)
    assert first.progress_ms == {}
    later = first.after_heartbeat({A: 6, B: 7}, SHORTEST_SPAN_MS)
    assert (later.progress_ms, later.per_s) == ({A: SHORTEST_SPAN_MS}, {A: 1.0})
    still = later.after_heartbeat(None, 2 * SHORTEST_SPAN_MS)
    assert still.progress_ms == {A: SHORTEST_SPAN_MS}
    other = still.after_heartbeat({B: 8}, 3 * SHORTEST_SPAN_MS)
    assert other.progress_ms == {B: 3 * SHORTEST_SPAN_MS}, "the member does not have the other task any more"
