"""The leader of Kafka Streams groups as a durable HTTP service.

cli/                the commands: `assignor serve`, `migrate`, `backup`, `restore`, `groups`, `rebalances`, `tokens`
web/                pages for operators below /ui; views: the wording that pages and commands share
http/               the service: server (signals, the socket), app, middleware, auth; routes/, one file for each noun;
                    models/, each body and answer; problems: every error as RFC 9457
runtime/            groups at run time: assembly builds the coordinator from the settings, coordinator has all groups,
                    group_runtime gives each event its turn, rebalance_runner runs one rebalance through `assignor`
lease/              which groups this coordinator owns, and until when
workers/            processes that compute rebalances, so that nothing waits for them
store/              SQLAlchemy and the schema; no other package knows them
group/              what a group is and does: a pure state machine
clusters            the clusters that groups may name, found by entry point
telemetry, metrics  what happens, for the log and for Prometheus
errors, settings    what the other packages share
"""
