"""Groups of real Kafka Streams applications, from outside of them.

| module | what it does |
|---|---|
| `leader/` | `assignor lead`: joins a group first and leads its rebalances |
| `recorder/` | `assignor record`: follows groups and writes each rebalance as a rebalance/1 line |
| `described/` | the topology that `Topology#describe` printed, or that the group's own topics and tasks show |
| `application` | the application's topology and properties, as an operator hands them over, and facts from options |
| `rebalance_reports` | reports a rebalance to a coordinator; the line of a generation that never got an assignment |
| `kafka_command_options` | the options that both commands share |
"""
