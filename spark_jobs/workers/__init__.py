"""Runs instances of an application, each in its own process: `assignor workers run` on the command line, or
`spark_jobs.workers.run(spark, application, instances=3)` in a program.

`running`: the Spark job on the driver. `local_instances`: plain processes of this machine, without Spark, each of which
runs `local_instance`. Spark tasks and plain processes use `member_process`, which runs one instance. `leaving_signals`
waits for signals that end the instance. `instance_starts`: messages about instances that do not start, and the limit of
failed starts. `live_table`: shows the group on the terminal.
"""

from typing import TYPE_CHECKING

from assignor.names.lazy_names import LazyNames

if TYPE_CHECKING:
    from spark_jobs.workers.running import run as run
    from spark_jobs.workers.spark_confs import with_defaults as with_defaults

# import these names only when they are used: their modules import PySpark, which instances without Spark do not need
_LAZY = LazyNames(globals())
__all__ = [*_LAZY.home_of]
__getattr__ = _LAZY.load
__dir__ = _LAZY.listed
