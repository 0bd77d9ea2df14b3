"""A partitioned log in one SQLite file of a directory, for many processes and threads of one machine.

`log` is the `Log` itself; `schema` has the tables and their version, and knows the topics; `connections` opens the
file, and never uses it across a fork; `write_lock` lets one writer in at a time; `writes` and `reads` are what
producers and consumers do; `cleaning` does compaction, `deletion` retention, and takes topics away.
"""

from streams_runtime.logs.embedded.connections import Synchronous
from streams_runtime.logs.embedded.log import LOG_FILE_NAME, EmbeddedLog

__all__ = ["LOG_FILE_NAME", "EmbeddedLog", "Synchronous"]
