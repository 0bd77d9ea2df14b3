"""Changes the lags of tasks, in the members of a group or in a placement problem. A member reports an offset sum and
not a lag. So this sum is set to the sum of the changelogs' end offsets minus the new lag. If a task is reported as
running, its lag is not changed.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from assignor.clients.client_state import EndOffsetSums, TaskLags
from assignor.errors import InputError
from assignor.protocol.versions import FIRST_VERSION_WITH_OFFSET_SUMS
from assignor.recording.fields import as_task_id
from assignor.task_assignors.base import PlacementClient
from assignor.types import LATEST_OFFSET, ProcessId, TaskId
from rebalance_analysis.what_if.changes import EVERY_PROCESS
from rebalance_analysis.what_if.group_changes import OpenGroup, must_speak
from rebalance_analysis.what_if.process_names import process_called

_TASKS_SHOWN = 8


@dataclass(frozen=True, slots=True)
class _AskedLags:
    """The lags that a user wants to set. `of_process`: the lag for a process and a task. `of_all`: the lag for a task
    on every process. A key that is None stands for every task.
    """

    of_all: Mapping[TaskId | None, int]
    of_process: Mapping[ProcessId, Mapping[TaskId | None, int]]

    def lag(self, process: ProcessId, task: TaskId, *, reported: bool) -> int | None:
        """Returns the lag that the user set for a task of a process; None if the user set no lag for this task. If
        several lags apply, the lag with the most specific key is used. `reported`: True if the process reported the
        task. If the process did not report the task, only a lag for exactly this process and task is used.
        """
        own = self.of_process.get(process, {})
        if task in own:
            return own[task]
        if not reported:
            return None
        return next(
            (lags[key] for lags, key in ((own, None), (self.of_all, task), (self.of_all, None)) if key in lags), None
        )


def set_group_lags(group: OpenGroup, asked: Mapping[str, int], ends: EndOffsetSums) -> None:
    """Sets lags in the members of a group. Raises InputError if a name does not match exactly one process, or if a task
    is not a stateful task of the rebalance. Also raises InputError if the subscription version of a member has no
    offset sums, or if the end offsets are not known.
    """
    if not ends.known:
        raise InputError("the end offsets of this rebalance are not known, so no lag can be set", "lags")
    lags = read_lags(asked, group.names(), ends.by_task.keys())
    for process, members in group.processes().items():
        running = {
            task
            for member in members
            for task, offset in member.info.task_offset_sums.items()
            if offset == LATEST_OFFSET
        }
        reported = {task for member in members for task in member.info.task_offset_sums}
        for index, member in enumerate(members):
            named = lags.of_process.get(process, {}) if index == 0 else {}
            to_report = [task for task in named if task is not None and task not in reported]
            sums = dict(member.info.task_offset_sums)
            for task in (*member.info.task_offset_sums, *to_report):
                lag = lags.lag(process, task, reported=task in reported)
                if lag is not None and task in ends.by_task and task not in running:
                    must_speak(member, FIRST_VERSION_WITH_OFFSET_SUMS, "offsets", "lags")
                    sums[task] = max(ends.by_task[task] - lag, 0)
            group.put(replace(member, info=replace(member.info, task_offset_sums=sums)))


def client_with_lags(client: PlacementClient, asked: _AskedLags, stateful: Iterable[TaskId]) -> PlacementClient:
    """Returns a copy of a client of a placement problem, with changed lags. If the user sets a lag for a task of which
    the client has no copy, the client gets a standby copy.
    """
    held = client.previous_active | client.previous_standby
    reported = dict(client.lags.reported)
    standby = set(client.previous_standby)
    for task in stateful:
        lag = asked.lag(client.process_id, task, reported=task in held)
        if lag is not None and (task not in client.lags or client.lags.lag_for(task) != LATEST_OFFSET):
            reported[task] = lag
            if task not in held:
                standby.add(task)
    lags = TaskLags(reported, client.lags.unreported)
    # remove the members of a streams group, because their offsets would contradict the new lags
    return replace(client, lags=lags, previous_standby=frozenset(standby), members={})


def read_lags(
    asked: Mapping[str, int], names: Mapping[ProcessId, Iterable[str]], stateful: Iterable[TaskId]
) -> _AskedLags:
    """Parses the lags that a user wants to set. Raises InputError if a name does not match exactly one process, or if a
    task is not in `stateful`.
    """
    known = frozenset(stateful)
    of_all: dict[TaskId | None, int] = {}
    of_process: dict[ProcessId, dict[TaskId | None, int]] = {}
    for key, lag in asked.items():
        name, slash, text = key.rpartition("/")
        task = None if text == EVERY_PROCESS else as_task_id(text, "lags")
        if task is not None and task not in known:
            raise InputError(f"{task} is not a stateful task of this rebalance; there are {_listed(known)}", "lags")
        if slash and name != EVERY_PROCESS:
            of_process.setdefault(process_called(name, names, "lags"), {})[task] = lag
        else:
            of_all[task] = lag
    return _AskedLags(of_all, of_process)


def _listed(tasks: Iterable[TaskId]) -> str:
    texts = [str(task) for task in sorted(tasks)]
    more = len(texts) - _TASKS_SHOWN
    return (", ".join(texts[:_TASKS_SHOWN]) or "none") + (f" and {more} more" if more > 0 else "")
