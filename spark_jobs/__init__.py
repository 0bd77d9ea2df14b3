"""Runs instances of an application on Spark executors, or as plain processes of one machine.

- `workers/`: runs instances of an application as long-running Spark tasks or as plain processes.
- `ownership/`: writes ownership logs, computes the history from them, and shows the state of the group.
- `demo/`: the command `assignor demo`, which counts words on executors, kills an executor, and checks every count.
- `commands`: defines the commands of this package for the `assignor` program.
"""

from assignor.names.moved_modules import name_new_modules

name_new_modules(
    __path__,
    {
        "spark_jobs.batch": "spark_engine.batch",
        "spark_jobs.batch_commands": "rebalance_analysis.batch_commands",
        "spark_jobs.recordings": "rebalance_analysis.recordings",
        "spark_jobs.replay": "rebalance_analysis.replay",
        "spark_jobs.session": "spark_engine.session",
        "spark_jobs.sweep": "rebalance_analysis.sweep",
    },
)
