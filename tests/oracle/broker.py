"""A real Kafka broker on loopback, the only one of its cluster.

It is formatted, started, killed and started again on the same files.
One process is broker and controller (KRaft), unless the controller is to outlive the broker. Ports are chosen by the
system once and kept over restarts, so clients find the broker again.
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.oracle.jars import DEFAULT_RELEASE
from tests.oracle.kafka_node import KafkaNode, free_ports, new_cluster_id
from tests.waiting import wait_until

_HEAP_MB = 512
_CONTROLLER_HEAP_MB = 128
_BROKER_ID, _CONTROLLER_ID = 1, 2
_REPLICATION_LOGGER = "org.apache.kafka.controller.ReplicationControlManager"
_FENCED = f"Fencing broker {_BROKER_ID} at epoch"
_LONGEST_FENCING_S = 60


class Broker:
    """`directory`: its files. `properties`: of the broker, over those the tests have in common.

    `secured`: a security protocol, spoken on a second port, `secured_servers`; `listener.name.secured.*` configure it.
    `scram`: users that log in there by SCRAM, as `SCRAM-SHA-256=[name=...,password=...]`. `release`, `heap_mb`,
    `starts_fast`: see `KafkaNode`.

    `controller_apart`: the controller is a process of its own and runs on when the broker is killed. Tests need it that
    kill a broker while transactions are open. A broker of 4.3.1 loses committed records when its coordinator of
    transactions is loaded while partitions have no leader: `KRaftMetadataCache.getPartitionLeaderEndpoint` returns
    nothing for such a partition, `TransactionMarkerChannelManager` takes the partition for deleted and leaves out its
    marker, and no READ_COMMITTED reader ever gets past the transaction. A broker that is killed together with its
    controller starts with the leaders of before its death, is then fenced, and so gets into that state; one whose
    controller has fenced it before it starts has no coordinator until its partitions have leaders again.
    """

    def __init__(
        self,
        directory: Path,
        properties: Mapping[str, str] | None = None,
        *,
        secured: str | None = None,
        scram: Sequence[str] = (),
        release: str = DEFAULT_RELEASE,
        heap_mb: int = _HEAP_MB,
        starts_fast: bool = True,
        controller_apart: bool = False,
    ) -> None:
        self.directory = directory
        self.release = release
        port, controller_port, self._secured_port = free_ports(3)
        clients = f"PLAINTEXT://127.0.0.1:{port}"
        if secured is not None:
            clients += f",SECURED://127.0.0.1:{self._secured_port}"
        controller = f"CONTROLLER://127.0.0.1:{controller_port}"
        controller_id = _CONTROLLER_ID if controller_apart else _BROKER_ID
        of_both = {
            "controller.quorum.voters": f"{controller_id}@127.0.0.1:{controller_port}",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": f"PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SECURED:{secured or 'SSL'}",
            **(properties or {}),
        }
        of_broker = {
            "process.roles": "broker" if controller_apart else "broker,controller",
            "node.id": str(_BROKER_ID),
            "listeners": clients if controller_apart else f"{clients},{controller}",
            "advertised.listeners": clients,
            **of_both,
        }
        of_controller = {
            "process.roles": "controller",
            "node.id": str(_CONTROLLER_ID),
            "listeners": controller,
            **of_both,
        }
        self._node = KafkaNode(directory, port, of_broker, heap_mb, release=release, starts_fast=starts_fast)
        self._controller: KafkaNode | None = None
        self.cluster_id = new_cluster_id()
        if controller_apart:
            self._controller = KafkaNode(
                directory / "controller",
                controller_port,
                of_controller,
                _CONTROLLER_HEAP_MB,
                release=release,
                loggers=[_REPLICATION_LOGGER],
            )
            self._controller.format(self.cluster_id, scram)
        self._node.format(self.cluster_id, scram)
        self._fenced_before: int | None = None

    @property
    def bootstrap_servers(self) -> str:
        return self._node.address

    @property
    def secured_servers(self) -> str:
        """Where `secured` is spoken."""
        return f"127.0.0.1:{self._secured_port}"

    def start(self) -> None:
        """On return the broker answers. Raises AssertionError with the end of its log when it does not."""
        if self._controller is not None:
            if not self._controller.is_running:
                self._controller.start()
            self._wait_until_fenced(self._controller)
        self._node.start()

    def kill(self) -> None:
        """SIGKILL: what was acknowledged and only in the page cache survives, as it does a crash of the process."""
        if self._controller is not None:
            self._fenced_before = self._controller.log().count(_FENCED)
        self._node.kill()

    def stop(self) -> None:
        self._node.stop()
        if self._controller is not None:
            self._controller.stop()

    def _wait_until_fenced(self, controller: KafkaNode) -> None:
        """After a kill, until the controller has taken the partitions from the broker that was killed."""
        before, self._fenced_before = self._fenced_before, None
        if before is not None:
            wait_until(
                lambda: controller.log().count(_FENCED) != before,
                lambda: f"the controller did not fence the broker:\n{controller.last_words()}",
                _LONGEST_FENCING_S,
            )

    def last_words(self) -> str:
        return self._node.last_words()


def require_jars() -> bool:
    """Whether missing jars are a failure rather than a reason to skip."""
    return os.environ.get("ASSIGNOR_REQUIRE_JARS") == "1"
