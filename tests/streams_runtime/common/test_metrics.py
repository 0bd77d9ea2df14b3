"""What an instance measures."""

from assignor.types import TaskId
from streams_runtime.common.metrics import METRICS, InstanceMetrics, PausedBy
from streams_runtime.common.states import TaskState, TaskType

ACTIVE_RUNNING = (TaskId(0, 0), TaskType.ACTIVE, TaskState.RUNNING)
ANOTHER_RUNNING = (TaskId(0, 1), TaskType.ACTIVE, TaskState.RUNNING)
STANDBY_RUNNING = (TaskId(1, 0), TaskType.STANDBY, TaskState.RUNNING)


def samples(metrics: InstanceMetrics) -> set[str]:
    lines = metrics.exposition().decode().splitlines()
    return {line for line in lines if not line.startswith("#") and "_created{" not in line}


def test_should_show_every_metric_of_the_list_and_no_other() -> None:
    metrics = InstanceMetrics()
    thread = metrics.thread("t-1")
    thread.restoring({TaskId(0, 0): 1}, 1.0)
    thread.standby_lags({(TaskId(0, 1), "counts"): 1})
    thread.tasks([ACTIVE_RUNNING])
    thread.task_processed(TaskId(0, 0), 1)
    thread.buffered({TaskId(0, 0): 1})
    thread.task(TaskId(0, 0)).dropped("late")
    thread.task(TaskId(0, 0)).null_key_filtered()
    thread.task(TaskId(0, 0)).passed_over("orders", 1)
    thread.task(TaskId(0, 0)).windows_missing("clicks", 1)
    thread.task(TaskId(0, 0)).store_rebuilt()
    thread.windows_at_risk({(TaskId(0, 0), "clicks"): 1})
    metrics.paused(PausedBy.GROUP, True)
    shown = {line.split("{")[0] for line in samples(metrics)}
    assert shown == {metric.name for metric in METRICS}


def test_should_count_by_thread() -> None:
    metrics = InstanceMetrics()
    one, other = metrics.thread("t-1"), metrics.thread("t-2")
    one.processed(100)
    one.processed(50)
    one.commits.inc()
    one.punctuations.inc(3)
    one.polls.inc()
    one.polls.inc()
    one.restored(1_000, active=True)
    one.restored(10, active=False)
    other.processed(7)
    assert samples(metrics) == {
        'streams_processed_records_total{thread="t-1"} 150.0',
        'streams_commits_total{thread="t-1"} 1.0',
        'streams_punctuations_total{thread="t-1"} 3.0',
        'streams_restored_records_total{thread="t-1",type="active"} 1000.0',
        'streams_restored_records_total{thread="t-1",type="standby"} 10.0',
        'streams_processed_records_total{thread="t-2"} 7.0',
        'streams_commits_total{thread="t-2"} 0.0',
        'streams_punctuations_total{thread="t-2"} 0.0',
        'streams_restored_records_total{thread="t-2",type="active"} 0.0',
        'streams_restored_records_total{thread="t-2",type="standby"} 0.0',
        'streams_polls_total{thread="t-1"} 2.0',
        'streams_polls_total{thread="t-2"} 0.0',
        'streams_created_tasks_total{thread="t-1"} 0.0',
        'streams_created_tasks_total{thread="t-2"} 0.0',
        'streams_closed_tasks_total{thread="t-1"} 0.0',
        'streams_closed_tasks_total{thread="t-2"} 0.0',
    }


def gauges(metrics: InstanceMetrics) -> set[str]:
    return {line for line in samples(metrics) if "_total" not in line}


def test_should_show_only_tasks_that_the_thread_has_now() -> None:
    metrics = InstanceMetrics()
    thread = metrics.thread("t-1")
    thread.tasks([ACTIVE_RUNNING, ANOTHER_RUNNING, STANDBY_RUNNING])
    thread.restoring({TaskId(0, 0): 10, TaskId(0, 1): 20}, 5.5)
    thread.standby_lags({(TaskId(1, 0), "counts"): 4})
    thread.tasks([ACTIVE_RUNNING])
    thread.restoring({TaskId(0, 1): 15}, 2.5)
    assert gauges(metrics) == {
        'streams_tasks{state="running",thread="t-1",type="active"} 1.0',
        'streams_remaining_records{task="0_1",thread="t-1"} 15.0',
        'streams_restore_rate{thread="t-1"} 2.5',
        'streams_standby_lag{store="counts",task="1_0",thread="t-1"} 4.0',
    }


def test_should_keep_counts_but_no_gauges_of_a_thread_that_ended() -> None:
    metrics = InstanceMetrics()
    ended, other = metrics.thread("t-1"), metrics.thread("t-2")
    for thread in (ended, other):
        thread.processed(1)
        thread.tasks([ACTIVE_RUNNING])
    ended.close()
    metrics.thread("t-1").processed(1)
    assert gauges(metrics) == {'streams_tasks{state="running",thread="t-2",type="active"} 1.0'}
    assert 'streams_processed_records_total{thread="t-1"} 2.0' in samples(metrics)


def counts(metrics: InstanceMetrics, name: str) -> set[str]:
    return {line for line in samples(metrics) if line.startswith(name)}


def test_should_count_tasks_that_come_and_go() -> None:
    metrics = InstanceMetrics()
    thread = metrics.thread("t-1")
    thread.tasks([ACTIVE_RUNNING, ANOTHER_RUNNING])
    thread.tasks([ACTIVE_RUNNING, STANDBY_RUNNING])
    assert counts(metrics, "streams_created") == {'streams_created_tasks_total{thread="t-1"} 3.0'}
    assert counts(metrics, "streams_closed") == {'streams_closed_tasks_total{thread="t-1"} 1.0'}
    thread.close()
    assert counts(metrics, "streams_closed") == {'streams_closed_tasks_total{thread="t-1"} 3.0'}


def test_should_forget_what_a_task_processed_when_it_leaves_and_remember_what_it_lost() -> None:
    metrics = InstanceMetrics()
    thread = metrics.thread("t-1")
    thread.tasks([ACTIVE_RUNNING, ANOTHER_RUNNING])
    for task, *_ in (ACTIVE_RUNNING, ANOTHER_RUNNING):
        thread.task_processed(task, 5)
        thread.task(task).dropped("late")
        thread.task(task).passed_over("orders", 7)
    thread.tasks([ANOTHER_RUNNING])
    assert counts(metrics, "streams_task_processed") == {
        'streams_task_processed_records_total{task="0_1",thread="t-1"} 5.0'
    }
    assert counts(metrics, "streams_dropped") == {
        f'streams_dropped_records_total{{reason="late",task="{task}",thread="t-1"}} 1.0' for task in ("0_0", "0_1")
    }
    assert counts(metrics, "streams_passed_over") == {
        f'streams_passed_over_records_total{{task="{task}",thread="t-1",topic="orders"}} 7.0' for task in ("0_0", "0_1")
    }
    assert (thread.dropped_records, thread.passed_over_records) == (2, 14)


def test_should_have_a_registry_an_instance() -> None:
    one, other = InstanceMetrics(), InstanceMetrics()
    one.thread("t-1").processed(1)
    other.thread("t-1")
    assert 'streams_processed_records_total{thread="t-1"} 0.0' in samples(other)
