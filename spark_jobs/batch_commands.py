"""The commands `replay` and `sweep` for the one `assignor` program. They need pyarrow, and Spark only for its engine."""

from __future__ import annotations

import importlib.util

import typer

EXTRA = "batch"

# an installation without the extra leaves these commands out and says so
if importlib.util.find_spec("pyarrow") is None:
    raise ImportError(f"pip install 'assignor[{EXTRA}]'")


def register(app: typer.Typer) -> None:
    """Add this package's commands to `app`."""
    import importlib

    for module in ("spark_jobs.replay.command", "spark_jobs.sweep.command"):
        importlib.import_module(module).register(app)
