"""The commands `replay` and `sweep` of the one `assignor` program: they need pyarrow, and Spark for its engine only."""

from __future__ import annotations

import importlib.util

import typer

EXTRA = "batch"

# an installation without the extra leaves these commands out and says so
if importlib.util.find_spec("pyarrow") is None:
    raise ImportError(f"pip install 'assignor[{EXTRA}]'")


def register(app: typer.Typer) -> None:
    """Add this package's commands to `app`."""
    from spark_jobs.replay import command as replay
    from spark_jobs.sweep import command as sweep

    replay.register(app)
    sweep.register(app)
