"""The store of the coordinator: the logs of groups and their recorded rebalances, on SQLite or PostgreSQL.

    opening          the one door: lease, schema, repository, owners; `assignor migrate`
    repository       what the coordinator asks of a store, as values
    sql_repository   the repository on an SQL database
    lease_store  who owns which group, on PostgreSQL
    token_store      the tokens that were created over HTTP
    recordings       reads the recorded rebalances beside a running coordinator
    backup           the whole database into a file beside a running coordinator, and back into an empty one
    backup_file      the format of that file
    reading_beside   a connection that reads and cannot write
    stored_logs      whether a group's log is as it was written
    log_rows         reads its rows, also where the file is damaged
    database_file    whether the file is still the one that was opened, and the one that an earlier process left
    write_ahead_log  whether SQLite takes all of it that was answered
    write_turns      one write of SQLite at a time, also while somebody else has locked the database
    leases           one process for an SQLite file
    postgresql       how long it is waited for, and which connections are given up
    engine, tables, schema           connection, tables, and their version

This package alone knows SQLAlchemy, together with the top-level package `migrations`. Only `errors` leave it.
"""
