"""The restore of a thread as metrics: records, what remains, how fast, and how far standbys are behind."""

from pathlib import Path

from assignor.types import TopicPartition
from streams_runtime.common.metrics import InstanceMetrics
from streams_runtime.instance.restore.restore_consumer import PollSize
from streams_runtime.instance.restore.restore_meter import RestoreRate
from tests.streams_runtime.instance.restore.failing_log import FailingLog
from tests.streams_runtime.instance.restore.restoring import Restoring, create, numbered, write
from tests.streams_runtime.manual_clock import ManualClock

COUNTS = TopicPartition("app-counts-changelog", 0)
STANDBY = TopicPartition("standby-changelog", 0)


def shown(metrics: InstanceMetrics) -> dict[str, float]:
    lines = metrics.exposition().decode().splitlines()
    values = (line.rsplit(" ", 1) for line in lines if "restor" in line or "remaining" in line or "lag" in line)
    return {name: float(value) for name, value in values if not name.startswith("#") and "_created" not in name}


def test_should_measure_restored_and_remaining_records_rate_and_lag(tmp_path: Path, log: FailingLog) -> None:
    restoring = Restoring(tmp_path, log, restore_batch_records=400)
    metrics = restoring.metrics
    for partition in (COUNTS, STANDBY):
        create(log, partition.topic)
        write(log, partition, numbered(0, 1_000))
    restoring.add(STANDBY, standby=True, applied=899)
    restoring.add(COUNTS)
    rate, active, standby = (
        'streams_restore_rate{thread="t-1"}',
        'streams_restored_records_total{thread="t-1",type="active"}',
        'streams_restored_records_total{thread="t-1",type="standby"}',
    )
    remaining, lag = (
        'streams_remaining_records{task="1_0",thread="t-1"}',
        'streams_standby_lag{store="counts",task="0_0",thread="t-1"}',
    )

    restoring.restore(others_run=True)
    assert shown(metrics) == {rate: 1_600, active: 400, standby: 0, remaining: 600, lag: 100}
    restoring.clock.advance(1_000)
    restoring.restore(others_run=True)
    assert shown(metrics) == {rate: 800, active: 800, standby: 0, remaining: 200, lag: 100}
    restoring.restore(others_run=True)
    assert shown(metrics) == {rate: 0, active: 1_000, standby: 0, lag: 100}
    restoring.clock.advance(1_000)
    restoring.update_standbys()
    restoring.clock.advance(1_000)
    restoring.restore()
    assert shown(metrics) == {rate: 0, active: 1_000, standby: 100, lag: 0}
    restoring.close()
    assert shown(metrics) == {rate: 0, active: 1_000, standby: 100}


def test_should_forget_a_rate_that_is_over() -> None:
    clock = ManualClock()
    rate = RestoreRate(clock)
    assert rate.per_second() == 0
    rate.add(1_000)
    clock.advance(5_000)
    rate.add(1_000)
    assert rate.per_second() == 400
    clock.advance(7_000)
    assert rate.per_second() == 100
    clock.advance(10_000)
    assert rate.per_second() == 0


def test_should_ask_for_more_while_polls_are_quick_and_for_less_when_they_are_slow() -> None:
    size = PollSize(largest=10_000, pass_ms=20)
    sizes = []
    for took_ms in (2, 2, 2, 2, 2, 8, 11, 11, 40):
        sizes.append(size.records)
        size.adapt(size.records, size.records, took_ms)
    assert sizes == [1_000, 2_000, 4_000, 8_000, 10_000, 10_000, 10_000, 5_000, 2_500]
    size.adapt(size.records, 3, 40)
    assert size.records == 1_250, "a slow log says nothing about the size of records"
    for _ in range(20):
        size.adapt(size.records, size.records, 1_000)
    assert size.records == 10
    size.adapt(10, 5_000, 1_000)  # a transaction is not split
    assert size.records == 10


def test_should_never_ask_for_more_than_the_largest_poll() -> None:
    size = PollSize(largest=4, pass_ms=20)
    size.adapt(4, 4, 100)
    size.adapt(4, 4, 0)
    assert size.records == 4
