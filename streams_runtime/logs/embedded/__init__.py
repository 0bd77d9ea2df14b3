"""A partitioned log in one SQLite file of a directory, for many processes and threads of one machine.

Who does what: `log` is the face; `schema` the tables and their version; `connections` opens the file, never across a
fork; `write_lock` lets one writer in at a time; `writes` and `reads` are what producers and consumers do; `catalog`
knows topics; `cleaning` and `expiry` are the housekeeping.
"""

from streams_runtime.logs.embedded.log import EmbeddedLog

__all__ = ["EmbeddedLog"]
