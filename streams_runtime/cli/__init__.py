"""The commands that read or change the data of a log: `topics ...`, `produce`, `consume`, `reset`.

Rules: the commands access a log only through the package `logs/`. No other package of the runtime imports this package.
The output and the options are like those of Kafka's own tools (`kafka-topics.sh`, `kafka-console-producer.sh`,
`kafka-console-consumer.sh`, `kafka-streams-application-reset.sh`). Unlike Kafka's tools, each command reports the
number of records that it read or wrote, and each record that it skips.
"""
