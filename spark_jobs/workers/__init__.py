"""Instances of an application on Spark executors: `spark_jobs.workers.run(spark, application, instances=3)`.

`running`: the Spark job on the driver. `member_process`: one instance on an executor, with `executor_identity` and
`leaving_signals`. `ownership_log`, `ownership_listener`, `ownership_history`: what each thread owned and when.
`group_view`, `group_status`, `live_table`: the group as the driver shows it.
"""

from spark_jobs.workers.running import run
from spark_jobs.workers.spark_confs import with_defaults

__all__ = ["run", "with_defaults"]
