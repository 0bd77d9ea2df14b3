"""Which records a restore may see: under exactly-once committed ones only.

Rule: the end offset it restores to is the high watermark, so the consumer's position has to move past markers and past
what it does not give. Source: `StreamsConfig.getRestoreConsumerConfigs`.
"""

from __future__ import annotations

from streams_runtime.configs import StreamsConfig
from streams_runtime.logs.base import IsolationLevel


def restore_isolation(configs: StreamsConfig) -> IsolationLevel:
    """What the restore consumer has to be opened with."""
    return IsolationLevel.READ_COMMITTED if configs.exactly_once else IsolationLevel.READ_UNCOMMITTED
