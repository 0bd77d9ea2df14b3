"""A real Kafka broker of one node on loopback: formatted, started, killed and started again on the same files.

One process is broker and controller (KRaft). Ports are chosen by the system once and kept over restarts, so clients
find it again.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.oracle.kafka_node import KafkaNode, free_ports, new_cluster_id

_HEAP_MB = 512


class Broker:
    """`directory`: its files. `properties`: of the broker, over those the tests have in common.

    `secured`: a security protocol, spoken on a second port, `secured_servers`; `listener.name.secured.*` configure it.
    `scram`: users that log in there by SCRAM, as `SCRAM-SHA-256=[name=...,password=...]`. `heap_mb`, `starts_fast`: see
    `KafkaNode`.
    """

    def __init__(
        self,
        directory: Path,
        properties: Mapping[str, str] | None = None,
        *,
        secured: str | None = None,
        scram: Sequence[str] = (),
        heap_mb: int = _HEAP_MB,
        starts_fast: bool = True,
    ) -> None:
        self.directory = directory
        port, controller_port, self._secured_port = free_ports(3)
        clients = f"PLAINTEXT://127.0.0.1:{port}"
        if secured is not None:
            clients += f",SECURED://127.0.0.1:{self._secured_port}"
        settings = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@127.0.0.1:{controller_port}",
            "listeners": f"{clients},CONTROLLER://127.0.0.1:{controller_port}",
            "advertised.listeners": clients,
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": f"PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SECURED:{secured or 'SSL'}",
            **(properties or {}),
        }
        self._node = KafkaNode(directory, port, settings, heap_mb, starts_fast=starts_fast)
        self._node.format(new_cluster_id(), scram)

    @property
    def bootstrap_servers(self) -> str:
        return self._node.address

    @property
    def secured_servers(self) -> str:
        """Where `secured` is spoken."""
        return f"127.0.0.1:{self._secured_port}"

    def start(self) -> None:
        """On return the broker answers. Raises AssertionError with the end of its log when it does not."""
        self._node.start()

    def kill(self) -> None:
        """SIGKILL: what was acknowledged and only in the page cache survives, as it does a crash of the process."""
        self._node.kill()

    def stop(self) -> None:
        self._node.stop()

    def last_words(self) -> str:
        return self._node.last_words()


def require_jars() -> bool:
    """Whether missing jars are a failure rather than a reason to skip."""
    return os.environ.get("ASSIGNOR_REQUIRE_JARS") == "1"
