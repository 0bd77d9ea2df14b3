"""The options that choose among recorded rebalances, and the `LineChoice` they make."""

from __future__ import annotations

from typing import Annotated

import typer

from rebalance_analysis.reading.line_choice import LineChoice

Recordings = Annotated[list[str], typer.Argument(metavar="FILE...", help="Recordings, or - for stdin.")]


def choice_from_options(
    *,
    id: Annotated[str | None, typer.Option("--id", help="Only the rebalance with this id.")] = None,
    group: Annotated[str | None, typer.Option("--group", metavar="G", help="Only rebalances of this group.")] = None,
    all: Annotated[bool, typer.Option("--all", help="Every rebalance, not only the last one of each group.")] = False,
) -> LineChoice:
    return LineChoice(id, group, all)
