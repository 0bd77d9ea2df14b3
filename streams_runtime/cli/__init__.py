"""Commands about the data of a log: `topics ...`, `produce`, `consume`, `reset`.

Rules: they ask any log through `logs/`, in Kafka's terms, and stand above everything else of the runtime. Their
output is that of Kafka's own tools (`kafka-topics.sh`, `kafka-console-producer.sh`, `kafka-console-consumer.sh`,
`kafka-streams-application-reset.sh`), without their surprises: each command reports how many records it moved, and
nothing is left out silently.
"""
