"""The leader of Kafka Streams groups as a durable HTTP service.

cli/                the commands: `assignor serve`, `migrate`, `backup`, `restore`, `groups`, `rebalances`
http/               the service: server (signals, the socket), app, middleware, auth; routes/, one file for each noun;
                    problems: every error as RFC 9457
runtime/            groups at run time: opening builds the coordinator from the settings, coordinator has all groups,
                    group_runtime gives each event its turn, rebalance_runner runs one rebalance through `assignor`
                    and records it
clusters            the clusters that groups may name, found by entry point
telemetry, metrics  what happens, for the log and for Prometheus
store/              SQLAlchemy, the schema, the lease; no other package knows them
group/              what a group is and does: a pure state machine
errors, settings    what the other rooms share
"""
