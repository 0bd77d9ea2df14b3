"""The leader of Kafka Streams groups as a durable HTTP service.

- `cli/`: the commands `assignor serve`, `migrate`, `backup`, `restore`, `groups`, `rebalances` and `tokens`.
- `web/`: the pages for operators below /ui.
- `views`: the texts that both the pages and the commands show.
- `http/`: the HTTP service. `http/server` handles signals and opens the socket. `routes/` has one file for each noun of
  the API. `models/` has the bodies and the answers. `problems` converts every error to RFC 9457.
- `runtime/`: the groups at run time. `assembly` builds the coordinator from the settings. `coordinator` has all groups.
  `group_runtime` runs the events of one group. `rebalance_runner` computes a rebalance with the package `assignor`.
- `lease/`: the groups that this coordinator owns. A lease limits the time of this ownership.
- `workers/`: the processes that compute rebalances, so that computations do not block the event loop.
- `store/`: the tables and the database. No other package uses SQLAlchemy.
- `group/`: the state machine of a group, without I/O.
- `telemetry` and `metrics`: the events for the log file, and the measurements for Prometheus.
- `errors` and `settings`: the errors and settings of all these packages.
"""
