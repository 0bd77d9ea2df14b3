"""Leads and records the groups of real Kafka Streams applications from a process outside the application.

- `leader/`: the command `assignor lead`, which joins a group first and leads its rebalances.
- `recorder/`: the command `assignor record`, which follows groups and writes each rebalance as a rebalance/1 line.
- `described/`: makes a topology from the text of `Topology#describe`, or from the topics and tasks of a group.
- `application`: reads an application's topology and properties from the operator's files and options.
- `rebalance_reports`: reports a rebalance to a coordinator, and makes the line of a generation without an assignment.
- `kafka_command_options`: the options that both commands share.
"""
