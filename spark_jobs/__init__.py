"""Runs instances of an application on Spark executors, or as plain processes of one machine.

| package or module | content |
|---|---|
| `workers/` | instances of an application as long-running Spark tasks or plain processes |
| `ownership/` | the ownership logs that instances write, the history from these logs, and the state of the group |
| `demo/` | `assignor demo`: a word count on executors; one executor is killed, and every count is checked |
| `commands` | the commands, registered with `assignor` |
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
