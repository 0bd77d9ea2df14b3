"""What runs on Spark: members of a group, and jobs over recorded rebalances.

| room | what it does |
|---|---|
| `workers/` | instances of an application as long-running Spark tasks, and what the driver shows of them |
| `session/` | the Spark session: its Java, its settings, the code it ships |
| `demo/` | `assignor demo`: a word count on executors, one of them killed, checked to the last count |
| `batch/` | work cut into chunks, run by Spark or by processes of one machine, with the same result |
| `recordings/` | recorded rebalances as chunks: JSON Lines, gzip, Parquet, databases |
| `replay/` | `assignor replay`: every recorded rebalance run again, one row each |
| `sweep/` | `assignor sweep`: every combination of a grid, forecast from recorded groups |
| `commands`, `batch_commands` | the commands, registered with `assignor` |
"""
