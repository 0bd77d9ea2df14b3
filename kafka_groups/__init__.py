"""Leads and records the groups of real Kafka Streams applications from a process outside the application.

| module | what it does |
|---|---|
| `leader/` | The command `assignor lead`: joins a group first and leads its rebalances. |
| `recorder/` | The command `assignor record`: follows groups and writes each rebalance as a rebalance/1 line. |
| `described/` | Makes a topology from the text of `Topology#describe`, or from the topics and tasks of a group. |
| `application` | Reads an application's topology and properties from the operator's files and options. |
| `rebalance_reports` | Reports a rebalance to a coordinator. Makes the line of a generation without an assignment. |
| `kafka_command_options` | The options that both commands share. |
"""
