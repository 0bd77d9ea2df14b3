"""A partitioned log in one SQLite file of a directory, for many processes and threads of one machine.

`embedded_log` is the `Log` itself. `schema` has the tables, their version, and a cache of the topics. `connections`
opens the file, and has the lock that admits one writer at a time. `record_batches` has the format of the batches.
`reads_and_writes` has the reads of consumers and the writes of producers. `maintenance` does compaction and retention,
and deletes topics.
"""

from streams_runtime.logs.embedded.connections import Synchronous as Synchronous
from streams_runtime.logs.embedded.embedded_log import LOG_FILE_NAME as LOG_FILE_NAME
from streams_runtime.logs.embedded.embedded_log import EmbeddedLog as EmbeddedLog
