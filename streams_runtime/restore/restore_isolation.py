"""Which records a restore may see: under exactly-once committed ones only.

Rule: the consumer that restores and the end offsets it restores to have the same isolation level, or the restore would
wait for records that it never gets. Source: `StreamsConfig.getRestoreConsumerConfigs`.
"""

from __future__ import annotations

from streams_runtime.configs import StreamsConfig
from streams_runtime.logs.base import IsolationLevel


def restore_isolation(configs: StreamsConfig) -> IsolationLevel:
    """What the restore consumer has to be opened with."""
    return IsolationLevel.READ_COMMITTED if configs.exactly_once else IsolationLevel.READ_UNCOMMITTED
