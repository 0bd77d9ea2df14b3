"""Instances of an application, each in a process of its own: `assignor workers run`, or from a program
`spark_jobs.workers.run(spark, application, instances=3)`.

`running`: the Spark job on the driver. `local_instances`: plain processes of this machine, without Spark, each of which
runs `local_instance`. Spark tasks and plain processes use `member_process`, which runs one instance, with
`leaving_signals`. `instance_starts`: the messages about instances that do not start, and the limit of failed starts.
`live_table`: the group on the terminal.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from spark_jobs.workers.running import run
    from spark_jobs.workers.spark_confs import with_defaults

__all__ = ["run", "with_defaults"]

_MODULES = {"run": "running", "with_defaults": "spark_confs"}


def __getattr__(name: str) -> Any:
    """Imports the module of `run` or `with_defaults`, and with it PySpark, on first use: instances without Spark must
    not need PySpark.
    """
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
