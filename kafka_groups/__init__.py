"""Leads and records the groups of real Kafka Streams applications from a process outside the application.

| module | what it does |
|---|---|
| `leader/` | `assignor lead`: joins a group first and leads its rebalances |
| `recorder/` | `assignor record`: follows groups and writes each rebalance as a rebalance/1 line |
| `described/` | makes the topology from the text of `Topology#describe`, or from the group's topics and tasks |
| `application` | reads the application's topology and properties from the operator's files, and facts from options |
| `rebalance_reports` | reports a rebalance to a coordinator; the line of a generation that never got an assignment |
| `kafka_command_options` | the options that both commands share |
"""
