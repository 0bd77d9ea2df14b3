"""Runs instances of an application, each in its own process. On the command line, use `assignor workers run`. In a
program, use `spark_jobs.workers.run(spark, application, instances=3)`.

`running` runs instances as Spark tasks. `local_instances` runs instances as plain processes, without Spark.
`local_instance` is the program of each process. A Spark task and a plain process use `member_process`, which runs one
instance. `leaving_signals` waits for signals that end an instance. `instance_starts` makes messages about instances
that do not start, and limits the number of failed starts. `live_table`: shows the group on the terminal.
"""

from typing import TYPE_CHECKING

from assignor.names.lazy_names import LazyNames

if TYPE_CHECKING:
    from spark_jobs.workers.running import run as run
    from spark_jobs.workers.spark_confs import with_defaults as with_defaults

# import these names only when they are used, because their modules import PySpark: local instances run without PySpark
_LAZY = LazyNames(globals())
__all__ = [*_LAZY.home_of]
__getattr__ = _LAZY.load
__dir__ = _LAZY.listed
