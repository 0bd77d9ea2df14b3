"""Stores the logs of groups and their recorded rebalances for the coordinator, in SQLite or PostgreSQL.

- `opening` opens the store. `opening` also takes the lease of an SQLite file, and brings the schema up to date.
- `repository` appends to the logs of groups, and reads and shortens these logs.
- `stored_logs` reads a group's log, even from a damaged file, and checks whether the log is damaged.
- `token_store` stores the tokens that were created over HTTP.
- `lease_store` reads and changes the owners of groups. `lease_rows` defines the rows of coordinators and groups.
- `recordings` reads the recorded rebalances while a coordinator runs.
- `backup` writes the whole database to a file, and restores the file into an empty database.
- `backup_file` reads and writes the format of the backup file.
- `schema` defines the tables and their version.
- `engine` connects to the database, with time limits on PostgreSQL.
- `sqlite` runs writes to an SQLite file one at a time, and finds damage that SQLite itself does not notice.

Only this package and the top-level package `migrations` import SQLAlchemy. The package raises only the errors of
`store_errors`.
"""
