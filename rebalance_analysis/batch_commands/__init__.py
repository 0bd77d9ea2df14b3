"""The commands `replay` and `sweep` of the `assignor` program. `replay` and `sweep` need pyarrow. Spark is needed only
for the option `--engine spark`.
"""

import typer

from assignor_cli.extras import Extra
from assignor_cli.help_texts import example

BATCH = Extra("batch", ("pyarrow", "matplotlib"))


def register(app: typer.Typer) -> None:
    """Add this package's commands to `app`."""
    if BATCH.is_missing:
        BATCH.register_missing(app, "replay", "sweep")
        return
    from rebalance_analysis.batch_commands import replay, sweep

    app.command("replay", epilog=example("replay recordings/ --output replayed --engine local"))(replay.replay_inputs)
    grid = "sweep recordings/ --grid max.warmup.replicas=1..8 --output swept"
    app.command("sweep", epilog=example(grid))(sweep.sweep)
