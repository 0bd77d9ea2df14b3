"""`assignor groups lag`: the input lag of a group, and how fast it is processed."""

from collections.abc import Sequence
from typing import Any

import typer

from assignor_cli.help_texts import example
from assignor_cli.option_groups import options_of
from assignor_cli.output import ResultOutput, output_from_options
from assignor_cli.tables import Column, View
from coordinator_api.cli.calls import Cell, CoordinatorCalls, GroupArgument, document_table
from coordinator_api.views import behind_text, flow_text, input_lag_text, records_per_s_text
from coordinator_client.calls import group_path

flow = typer.Typer()

_MOST_TASKS = 20
"""The number of tasks that are shown without `-o wide`."""

FLOW: Sequence[Cell] = (
    (Column("LAG", right=True, optional=True), lambda each, view: input_lag_text(each.get("flow"))),
    (Column("BEHIND", right=True, optional=True), lambda each, view: behind_text(each.get("flow"))),
    (Column("RECORDS/S", right=True, optional=True), lambda each, view: records_per_s_text(each.get("flow"))),
)
"""The columns of the input of a task. Each entry has its flow in the field `flow`."""

_SUBTOPOLOGIES: Sequence[Cell] = ((Column("SUBTOPOLOGY"), lambda each, view: each["name"]), *FLOW)
_TASKS: Sequence[Cell] = ((Column("TASK"), lambda each, view: each["name"]), *FLOW)


@flow.command("lag", epilog=example("groups lag orders", "groups lag orders --watch"))
@options_of(calls=CoordinatorCalls, output=output_from_options)
def group_lag(group: GroupArgument, calls: CoordinatorCalls, output: ResultOutput) -> None:
    """Show the records that wait for a group: its input lag.

    The lag is the number of offsets in the input topics, with repartition topics, that are not processed yet. An arrow
    shows whether it rises or falls. BEHIND is the time by which the newest processed timestamp is behind the clock. The
    members report all this with their heartbeats, so no cluster is asked. The tasks that are most behind come first.
    """
    output.show(lambda: calls.get(f"{group_path(group)}/flow"), _group_flow)


def _group_flow(document: Any, view: View) -> str:
    if document["total"] is None:
        return f"{document['group_id']}: no member has reported the lag of a task."
    subtopologies = [{"name": name, "flow": each} for name, each in document["subtopologies"].items()]
    tasks = sorted(document["tasks"], key=lambda each: -(each["lag"] or 0))
    waiting = [{"name": each["task"], "flow": each} for each in tasks if view.wide or each["lag"] != 0]
    shown = waiting if view.wide else waiting[:_MOST_TASKS]
    more = f"\nThe first {len(shown)} of {len(waiting)} tasks; -o wide shows all." if len(shown) < len(waiting) else ""
    lines = [f"{document['group_id']}: {flow_text(document['total'])}", ""]
    lines += [document_table("", _SUBTOPOLOGIES, subtopologies, view), ""]
    return "\n".join(lines) + document_table("No task has records that wait.", _TASKS, shown, view) + more
