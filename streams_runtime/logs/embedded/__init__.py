"""A partitioned log in one SQLite file of a directory, for many processes and threads of one machine.

`embedded_log` is the `Log` itself; `schema` has the tables and their version, and knows the topics; `connections`
opens the file, and never uses it across a fork, and lets one writer in at a time; `record_batches` has the format of
the batches; `writes` and `reads` are for producers and consumers; `maintenance` does compaction and retention, and
deletes topics.
"""

from streams_runtime.logs.embedded.connections import Synchronous
from streams_runtime.logs.embedded.embedded_log import LOG_FILE_NAME, EmbeddedLog

__all__ = ["LOG_FILE_NAME", "EmbeddedLog", "Synchronous"]
