"""Speed as a ratio to a named peer, measured in one run where the peer can run here. `make bench` runs all of it.

| benchmark | measures | peer |
|---|---|---|
| `replay` | a recorded rebalance run again | reading its JSON with the standard library |
| `replay-engines` | `assignor replay` on Spark | the same replay by processes of this machine |
| `jvm-leader` | one whole rebalance and its task assignor, for each assignor of Kafka | Kafka's own classes in a JVM |
| `minimal-movement` | moves of the assignor that moves less, while a group grows | Kafka's own assignor |
| `restore-rate` | a task's state restored from a changelog | the same batches written straight into rocksdict |
| `restore-memory` | memory while ten million records are restored | the same process after its warm-up |
| `restore-kill` | an instance that starts after SIGKILL, on the same disk | the same without state |
| `restore-transactions` | CPU a record with transactional stores | the same without them |
| `restore-transaction-memory` | memory of a transaction of a million changes | the same without transactional stores |
| `standby-rate` | a standby that catches up | an active task restored from the same changelog |
| `processing-rate` | the records of one stream thread | a plain Python loop on the same log |
| `jvm-runtime` | CPU a record of a stream thread, for five applications | Kafka Streams in a JVM; also Quix, Spark |
| `failover` | the time until a lost task runs again | the session time-out, which a silent death has to wait for |
| `failover-defaults` | the same for README's application with default settings | Kafka Streams with its defaults |
| `kills` | the same for process after process, every other one killed while a rebalance is under way | one second |
| `promotion` | the time until a group that has grown is balanced | the same with Kafka's probing deadline |
| `kafka-log` | records read from and written to Kafka | plain loops of aiokafka on the same broker |
| `group-load` | a coordinator with thousands of members, and hostile callers | a broker with as many members |
| `heartbeat-flow` | CPU of a heartbeat that reports the flow of its tasks | the same heartbeat without flows |
| `storage-faults` | what a coordinator with members answers while its store fails | none |
"""
