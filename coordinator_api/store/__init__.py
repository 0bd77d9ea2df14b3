"""The store of the coordinator: the logs of groups and their recorded rebalances, on SQLite or PostgreSQL.

    opening          the one door: lease, schema, repository; `assignor migrate`
    repository       what the coordinator asks of a store, as values
    sql_repository   the repository on an SQL database
    recordings       reads the recorded rebalances beside a running coordinator
    engine, tables, schema, leases   connection, tables, their version, and who may write

This package alone knows SQLAlchemy, together with the top-level package `migrations`. Only `errors` leave it.
"""
