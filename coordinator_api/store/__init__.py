"""The store of the coordinator: the logs of groups and their recorded rebalances, on SQLite or PostgreSQL.

    opening       takes the lease of an SQLite file, brings the schema up to date; `assignor migrate`
    repository    appends to the logs of groups, reads and shortens them
    stored_logs   whether a group's log is as it was written; reads it, also where the file is damaged
    token_store   the tokens that were created over HTTP
    lease_store   which coordinator owns which group; `lease_rows`: what it reads, as values
    recordings    reads the recorded rebalances beside a running coordinator
    backup        the whole database into a file, and back into an empty one; `backup_file`: the format of that file
    schema        the tables, and their version
    engine        connections to the database, and how long PostgreSQL is waited for
    sqlite        WAL mode, one write at a time, and damage to the file that SQLite itself does not notice

This package alone knows SQLAlchemy, together with the top-level package `migrations`. Only `store_errors` leave it.
"""
