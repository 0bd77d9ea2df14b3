"""Who owns the tasks of a group."""

from collections.abc import Iterable

from spark_jobs.ownership.group_view import GroupView
from tests.spark_jobs.small_application import TASKS


def are_owned_once(view: GroupView, tasks: Iterable[str] = TASKS) -> bool:
    return {task: len(names) for task, names in view.owners().items()} == dict.fromkeys(tasks, 1)
