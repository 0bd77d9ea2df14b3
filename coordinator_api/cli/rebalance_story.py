"""One recorded rebalance as a story, told as `assignor explain` tells those of files."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence

from assignor.commands.group_story_text import group_story_text
from assignor.commands.tables import View
from assignor.commands.task_story_text import task_story_text
from assignor.errors import AssignorFault, InputError
from assignor.reading.own_assignors import load_own_assignor
from assignor.rerun import run
from assignor.story import PastRebalance, group_story, story
from assignor.types import TaskId


def rebalance_story(
    group_id: str, documents: Sequence[Mapping[str, object]], task: str | None
) -> Callable[[View], str] | None:
    """The text of the last of the documents, each rebalance/1; the one before it, if there is one, is what it is
    compared with. None when it cannot be run here. Raises InputError for a task that is none, or that it has not.
    """
    only = _parsed(task)
    before = _run(documents[0]) if len(documents) > 1 else None
    past = _run(documents[-1])
    if past is None:
        return None
    if only is None:
        told = group_story([past], before, every_task=True)
        return lambda view: group_story_text(group_id, told, None, view, every=view.wide)
    of_task = story([past], only, before)
    if not of_task.found:
        raise InputError(f"there is no task {task} in this rebalance of group {group_id}", "--task")
    return functools.partial(task_story_text, group_id, of_task, None, every=True)


def _parsed(task: str | None) -> TaskId | None:
    try:
        return None if task is None else TaskId.parse(task)
    except ValueError as error:
        raise InputError(str(error), "--task") from None


def _run(document: Mapping[str, object]) -> PastRebalance | None:
    generation = document["generation_id"]
    assert isinstance(generation, int)
    try:
        return PastRebalance(generation, run(document, load_own_assignor))
    except AssignorFault:
        return None
