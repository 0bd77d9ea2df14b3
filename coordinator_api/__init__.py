"""The leader of Kafka Streams groups as a durable HTTP service.

cli/                the commands: `assignor serve`, `migrate`, `backup`, `restore`, `groups`, `rebalances`, `tokens`
web/                pages for operators below /ui; views: the wording that pages and commands share
http/               the service: server (signals, the socket), app, middleware, auth; routes/, one file for each noun;
                    models/, each body and answer; problems: every error as RFC 9457
runtime/            groups at run time: assembly builds the coordinator from the settings, coordinator has all groups,
                    group_runtime runs a group's events one by one, rebalance_runner runs a rebalance by `assignor`
lease/              the groups that this coordinator owns, and the lease that limits the time for which it owns them
workers/            processes that compute rebalances, so that computations do not block the event loop
store/              SQLAlchemy and the schema; no other package uses either
group/              the state machine of a group, without I/O
clusters            the clusters that groups may name, found by entry point
telemetry, metrics  events for the log, measurements for Prometheus
errors, settings    errors and settings of all other packages
"""
