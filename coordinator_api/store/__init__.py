"""The store of the coordinator: the logs of groups and their recorded rebalances, on SQLite or PostgreSQL.

    opening       takes the lease of an SQLite file, and brings the schema up to date; `assignor migrate`
    repository    appends to the logs of groups, reads and shortens them
    stored_logs   reads a group's log, also from a damaged file, and checks whether it is damaged
    token_store   the tokens that were created over HTTP
    lease_store   the owners of the groups; `lease_rows`: its rows as values
    recordings    reads the recorded rebalances while a coordinator runs
    backup        writes the whole database to a file, and restores it into an empty one; `backup_file`: the file format
    schema        the tables, and their version
    engine        connections to the database, and the time limits of PostgreSQL
    sqlite        WAL mode, one write at a time, and checks for damage that SQLite itself does not notice

Only this package and the top-level package `migrations` import SQLAlchemy. The package raises only the errors of
`store_errors`.
"""
