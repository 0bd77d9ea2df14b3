"""The commands about recorded rebalances: `assign`, `decode`, `explain`, `diff`, `what-if` and `simulate`."""

from __future__ import annotations

import typer

from rebalance_analysis.commands import assign, decode, diff, explain, simulate, what_if


def register(app: typer.Typer) -> None:
    """In the order in which the help lists them."""
    for module in (assign, decode, explain, diff, what_if, simulate):
        module.register(app)
