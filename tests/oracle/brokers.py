"""A real Kafka cluster of three nodes on loopback, each broker and controller (KRaft) in a rack of its own.

Everything has three replicas and takes writes while two of them are there, so any one node can be killed, or be away,
and nothing that was acknowledged is lost. Ports and files are kept over restarts.
"""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from kafka_client.settings.properties_file import read_properties_file
from tests.oracle.jars import DEFAULT_RELEASE
from tests.oracle.kafka_node import KafkaNode, free_ports, new_cluster_id

NODES = (1, 2, 3)
_HEAP_MB = 256
_PROPERTIES = Path(__file__).with_name("brokers.properties")


class Brokers:
    """Nodes 1, 2 and 3 in racks r1, r2 and r3. `properties`: of all of them, over those of `brokers.properties`.

    `release`: the Kafka release that all of them run.
    """

    def __init__(
        self, directory: Path, properties: Mapping[str, str] | None = None, release: str = DEFAULT_RELEASE
    ) -> None:
        ports = free_ports(2 * len(NODES))
        controllers = dict(zip(NODES, ports[len(NODES) :], strict=True))
        self._nodes = {
            number: KafkaNode(
                directory / f"node-{number}",
                port,
                {
                    "process.roles": "broker,controller",
                    "node.id": str(number),
                    "broker.rack": f"r{number}",
                    "controller.quorum.voters": ",".join(f"{n}@127.0.0.1:{port}" for n, port in controllers.items()),
                    "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controllers[number]}",
                    "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}",
                    "controller.listener.names": "CONTROLLER",
                    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
                    **read_properties_file(_PROPERTIES),
                    **(properties or {}),
                },
                _HEAP_MB,
                release=release,
            )
            for number, port in zip(NODES, ports, strict=False)
        }
        cluster_id = new_cluster_id()
        with ThreadPoolExecutor(len(NODES)) as threads:
            list(threads.map(lambda node: node.format(cluster_id), self._nodes.values()))

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(node.address for node in self._nodes.values())

    def address(self, number: int) -> str:
        """Of one node, running or not."""
        return self._nodes[number].address

    def pid(self, number: int) -> int:
        return self._nodes[number].pid

    def start(self) -> None:
        """All nodes. On return they answer; who leads what may still move."""
        for node in self._nodes.values():
            node.launch()
        for node in self._nodes.values():
            node.wait_until_it_answers()

    def start_node(self, number: int) -> None:
        self._nodes[number].start()

    def kill_node(self, number: int) -> None:
        """SIGKILL."""
        self._nodes[number].kill()

    def kill(self) -> None:
        """All nodes; nobody is asked to wait for the others."""
        for node in self._nodes.values():
            node.kill()
