"""The store of the coordinator: the logs of groups and their recorded rebalances, on SQLite or PostgreSQL.

    opening          the one door: lease, schema, repository; `assignor migrate`
    repository       what the coordinator asks of a store, as values
    sql_repository   the repository on an SQL database
    recordings       reads the recorded rebalances beside a running coordinator
    stored_logs      whether a group's log is as it was written
    database_file    whether the file is still the one that was opened
    write_turns      one write at a time, also while somebody else has locked the database
    engine, tables, schema, leases   connection, tables, their version, and who may write

This package alone knows SQLAlchemy, together with the top-level package `migrations`. Only `errors` leave it.
"""
