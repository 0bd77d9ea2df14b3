"""Groups of the coordinator on a real Kafka cluster: a topic that appears, a broker that is killed and comes
back. What else a group does about its cluster is in `runtime/test_cluster_watch.py`.
"""

import asyncio
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from tests.coordinator_api.group_members import HttpMember, definition, settle
from tests.coordinator_api.service_process import ServiceProcess
from tests.oracle.broker import Broker
from tests.waiting import wait_until

pytestmark = pytest.mark.kafka

CLIENT_PROPERTIES = "default.api.timeout.ms=2000\nrequest.timeout.ms=1000\nretry.backoff.ms=50\n"


def service_for(directory: Path, *addresses: str) -> ServiceProcess:
    """Looks at its clusters ten times a second, and does not wait long for one that is dead."""
    directory.mkdir()
    (directory / "client.properties").write_text(CLIENT_PROPERTIES)
    flags = (
        *("--group-initial-rebalance-delay-ms", "0"),
        *("--cluster-bootstrap-servers", ",".join(addresses)),
        *("--cluster-metadata-max-age-ms", "100"),
    )
    environment = {"ASSIGNOR_KAFKA_CLIENT_CONFIG": str(directory / "client.properties")}
    return ServiceProcess(directory, *flags, environment=environment)


@pytest.fixture(scope="module")
def client(kafka_broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    directory = tmp_path_factory.mktemp("coordinator") / "service"
    with service_for(directory, kafka_broker.bootstrap_servers) as process, process.client() as http:
        yield http


class Application:
    """A group over a topic of its own on a broker."""

    def __init__(self, client: httpx.Client, broker: Broker) -> None:
        self.client = client
        self.broker = broker
        self.name = f"app-{uuid.uuid4().hex[:12]}"
        self.topic = f"{self.name}-events"
        self.changelog = f"{self.name}-counts-changelog"
        self.path = f"/v1/groups/{self.name}"
        body = definition(application_id=self.name)
        subtopology = body["topology"]["subtopologies"][0]
        subtopology["source_topics"] = [self.topic]
        subtopology["stores"][0]["changelog_topic"] = self.changelog
        kept = {name: body[name] for name in ("assignor", "configs", "application_id", "topology")}
        cluster = {"provider": "kafka", "bootstrap.servers": broker.bootstrap_servers}
        declared = client.put(self.path, json={**kept, "cluster": cluster})
        assert declared.status_code == 201, declared.text

    def member(self) -> HttpMember:
        return HttpMember(self.client, self.name, self.topic)

    def describe(self) -> dict[str, Any]:
        described: dict[str, Any] = self.client.get(self.path).json()
        return described

    def until(self, holds: Callable[[dict[str, Any]], object], what: str) -> dict[str, Any]:
        """The description for which it holds; changes on the broker are only seen by looking."""
        return wait_until(lambda: seen if holds(seen := self.describe()) else {}, lambda: f"{what}: {self.describe()}")

    def rejoin_when_told(self, member: HttpMember) -> None:
        self.until(lambda described: described["state"] == "PreparingRebalance", "a rebalance by itself")
        assert member.heartbeat().json()["rejoin"]
        assert member.subscribe().status_code == 200
        assert member.fetch().status_code == 200

    def recorded(self, generation_id: int) -> dict[str, Any]:
        recorded: dict[str, Any] = self.client.get(f"{self.path}/rebalances/{generation_id}").json()
        return recorded


def create_topic(broker: Broker, name: str, partitions: int) -> None:
    async def create() -> None:
        admin = AIOKafkaAdminClient(bootstrap_servers=broker.bootstrap_servers)
        await admin.start()
        try:
            await admin.create_topics([NewTopic(name, partitions, 1)])
        finally:
            await admin.close()

    asyncio.run(create())


def test_should_start_a_rebalance_when_a_missing_topic_appears(client: httpx.Client, kafka_broker: Broker) -> None:
    application = Application(client, kafka_broker)
    member = application.member()
    member.subscribe()
    told = member.fetch().json()
    waiting = application.describe()

    create_topic(kafka_broker, application.topic, 3)
    application.rejoin_when_told(member)
    running = application.describe()

    assert told["followup"] is True
    assert (waiting["state"], waiting["error"]) == ("Stable", "INCOMPLETE_SOURCE_TOPIC_METADATA")
    assert waiting["advice"] == (
        f"Source topics are missing on kafka {kafka_broker.bootstrap_servers}: `{application.topic}`. If the names are "
        "right, create them; the coordinator then starts a rebalance: "
        f"`assignor topics create {application.topic}`."
    )
    assert member.active == ("0_0", "0_1", "0_2")
    assert (running["reason"], running["error"]) == (f"topic {application.topic} appeared, partitions 3", None)
    assert [task["lag"] for task in running["tasks"]] == [0, 0, 0]
    recorded = application.recorded(running["generation_id"])
    assert recorded["output"]["internal_topics"] == {application.changelog: 3}
    assert recorded["input"]["cluster"]["topics"][application.topic]["partitions"] == 3


def test_should_wait_for_a_killed_broker_and_go_on_when_it_is_back(oracle_jars: str, tmp_path: Path) -> None:
    broker = Broker(tmp_path / "broker", {"broker.rack": "rack-a"})
    broker.start()
    try:
        with service_for(tmp_path / "service", broker.bootstrap_servers) as process, process.client() as client:
            _ride_out_a_broker_that_is_down(client, broker)
    finally:
        broker.stop()


def _ride_out_a_broker_that_is_down(client: httpx.Client, broker: Broker) -> None:
    application = Application(client, broker)
    create_topic(broker, application.topic, 2)
    first, second = application.member(), application.member()
    first.subscribe()
    settle(first)
    recorded = application.recorded(first.generation_id)
    assert recorded["input"]["cluster"]["brokers"] == [{"id": 1, "rack": "rack-a"}]
    assert recorded["input"]["cluster"]["topics"][application.topic] == {
        "partitions": 2,
        "replicas": [[1], [1]],
        "leaders": [1, 1],
    }

    broker.kill()
    stable = application.until(lambda seen: seen["cluster"]["error"], "a look that fails")
    assert (stable["state"], stable["generation_id"]) == ("Stable", first.generation_id)
    assert stable["advice"].startswith("The cluster does not answer: ")
    assert first.heartbeat().json()["state"] == "Stable"

    second.subscribe()
    first.subscribe()
    waiting = application.describe()
    assert (waiting["state"], waiting["error"]) == ("CompletingRebalance", None)
    assert waiting["advice"].startswith("The rebalance waits for the cluster: ")
    assert second.fetch(wait_ms=0).status_code == 204
    assert client.get("/readyz").json()["status"] == "ok"

    broker.start()
    settle(first, second)
    back = application.until(lambda seen: seen["cluster"]["error"] is None, "a look that is answered")
    assert (back["state"], back["error"], back["advice"]) == ("Stable", None, None)
    assert sorted((*first.active, *second.active)) == ["0_0", "0_1"]
