"""Recorded rebalances as input of batch work: `planning` cuts inputs into chunks, `reading` gives back their lines.

`chunk`: where a chunk lies. `parquet`, `columns`: tables of recordings. `spool`: inputs that can be read only once.
`own_assignors`: a user's own assignor on executors.
"""
