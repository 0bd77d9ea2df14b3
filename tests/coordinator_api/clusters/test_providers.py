"""Groups that name their cluster: what a rebalance sees of it, what it creates there, and what is refused."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from assignor.errors import InputError, NotBuiltYet
from assignor.types import TopicPartition
from coordinator_api.runtime.clusters import Clusters, ProviderAddress, provider_address
from streams_runtime.logs.base import Log, NewTopic
from streams_runtime.logs.opening import open_log
from tests.coordinator_api.group_members import CHANGELOG, TOPIC, definition
from tests.coordinator_api.http.tenants import join_body
from tests.coordinator_api.service_process import ServiceProcess


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> str:
    return f"embedded:{tmp_path_factory.mktemp('records')}"


@pytest.fixture
def log(address: str) -> Iterator[Log]:
    opened = open_log(address)
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def client(address: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    flags = (
        *("--group-initial-rebalance-delay-ms", "10"),
        *("--cluster-bootstrap-servers", address),
        *("--cluster-metadata-max-age-ms", "100"),
    )
    with ServiceProcess(tmp_path_factory.mktemp("service"), *flags) as process, process.client() as http:
        yield http


def naming(**cluster: object) -> dict[str, Any]:
    named = definition(cluster=cluster)
    return {name: named[name] for name in ("assignor", "configs", "application_id", "topology", "cluster")}


def run_a_rebalance(client: httpx.Client, group: str) -> dict[str, Any]:
    """One member joins; returns the recorded rebalance."""
    for member in client.get(f"/v1/groups/{group}").json()["members"]:
        assert client.delete(f"/v1/groups/{group}/members/{member['member_id']}").status_code == 204
    joined = client.post(f"/v1/groups/{group}/subscriptions", json=join_body()).json()
    path = f"/v1/groups/{group}/members/{joined['member_id']}/assignment"
    fetched = client.get(path, params={"min_generation": joined["generation_id"], "wait_ms": 30_000})
    assert fetched.status_code == 200, fetched.text
    generation = fetched.json()["generation_id"]
    recorded: dict[str, Any] = client.get(f"/v1/groups/{group}/rebalances/{generation}").json()
    return recorded


def test_should_read_the_cluster_in_each_rebalance_and_add_topics(client: httpx.Client, log: Log, address: str) -> None:
    log.create_topics([NewTopic(TOPIC, 3)])
    assert client.put("/v1/groups/live", json=naming(provider="embedded")).status_code == 201

    first = run_a_rebalance(client, "live")

    assert {topic: one["partitions"] for topic, one in first["input"]["cluster"]["topics"].items()} == {TOPIC: 3}
    assert first["input"]["existing_internal_topics"] == {}
    assert first["output"]["internal_topics"] == {CHANGELOG: 3}
    assert log.topics()[CHANGELOG].partitions == 3
    assert log.topics()[CHANGELOG].configs["cleanup.policy"] == "compact"

    producer = log.producer()
    for _ in range(5):
        producer.send(TopicPartition(CHANGELOG, 1), b"key", b"value", 0)
    producer.flush()
    second = run_a_rebalance(client, "live")

    assert second["input"]["changelog_end_offsets"] == {CHANGELOG: [0, 5, 0]}
    described = client.get("/v1/groups/live").json()
    assert {entry["task"]: entry["lag"] for entry in described["tasks"]} == {"0_0": 0, "0_1": 5, "0_2": 0}


def test_should_tell_members_that_a_source_topic_is_missing(client: httpx.Client) -> None:
    named = naming(provider="embedded")
    named["topology"]["subtopologies"][0]["source_topics"] = ["nowhere"]
    assert client.put("/v1/groups/missing", json=named).status_code == 201

    recorded = run_a_rebalance(client, "missing")

    assert recorded["output"]["error"] is None
    last = client.get("/v1/groups/missing").json()["last_rebalance"]
    assert (last["error"], last["missing_topics"]) == ("INCOMPLETE_SOURCE_TOPIC_METADATA", ["nowhere"])
    listed = client.get("/v1/groups/missing/rebalances").json()["rebalances"]
    assert [each["error"] for each in listed] == ["INCOMPLETE_SOURCE_TOPIC_METADATA: nowhere"]


@pytest.mark.parametrize(
    "field, value",
    [
        ("existing_internal_topics", {CHANGELOG: {"partitions": 1, "replicas": None}}),
        ("changelog_end_offsets", {"t": [1]}),
    ],
)
def test_should_refuse_a_definition_of_what_the_cluster_tells(client: httpx.Client, field: str, value: object) -> None:
    response = client.put("/v1/groups/both", json={**naming(provider="embedded"), field: value})

    assert (response.status_code, response.json()["where"]) == (422, field)


def test_should_open_only_what_the_settings_list() -> None:
    clusters = Clusters(("embedded:a", "embedded:b"))

    clusters.check(ProviderAddress("embedded", "embedded:a"))
    with pytest.raises(InputError, match=r"'embedded:c' is not listed in this service's setting cluster\.bootstrap"):
        clusters.check(ProviderAddress("embedded", "embedded:c"))
    with pytest.raises(InputError, match=r"'\.\.\.@c:9092' is not listed") as refused:
        clusters.check(ProviderAddress("kafka", "ann:hidden@c:9092"))
    assert "hidden" not in str(refused.value)
    with pytest.raises(InputError, match="lists 2 clusters, not one"):
        clusters.check(ProviderAddress("embedded", None))
    with pytest.raises(NotBuiltYet, match=r"no provider 'pulsar' here \(installed: embedded, kafka\)"):
        clusters.check(ProviderAddress("pulsar", "embedded:a"))


@pytest.mark.parametrize("listed", ["one:1,two:2,three:3", "kafka:one:1,two:2,three:3", "one:1;two:2;three:3"])
@pytest.mark.parametrize("named", ["one:1,two:2,three:3", "kafka:two:2, one:1", "three:3", "one:1;three:3"])
def test_should_know_a_cluster_by_some_of_its_servers_however_they_are_spelt(listed: str, named: str) -> None:
    clusters = Clusters(("other:1", listed))

    opened = clusters.provider(ProviderAddress("kafka", named))

    assert clusters.provider(ProviderAddress("kafka", "one:1")) is opened
    assert clusters.provider(ProviderAddress("kafka", "other:1")) is not opened
    with pytest.raises(InputError, match="'one:1,other:1' is not listed"):
        clusters.check(ProviderAddress("kafka", "one:1,other:1"))
    clusters.close()


@pytest.mark.parametrize(
    "cluster, where",
    [
        ({"provider": "", "bootstrap.servers": "x"}, "cluster.provider"),
        ({"provider": 1}, "cluster.provider"),
        ({"provider": "embedded", "bootstrap.servers": ""}, "cluster.bootstrap.servers"),
        ({"provider": "embedded", "bootstrap_servers": "x"}, "cluster"),
    ],
)
def test_should_say_what_is_wrong_with_the_name_of_a_cluster(cluster: dict[str, object], where: str) -> None:
    with pytest.raises(InputError) as refused:
        provider_address(cluster)

    assert refused.value.where == where


def test_should_fail_the_rebalance_and_not_the_service_when_a_cluster_cannot_be_opened(tmp_path: Path) -> None:
    broken = tmp_path / "records"
    broken.write_text("not a directory")
    flags = ("--group-initial-rebalance-delay-ms", "10", "--cluster-bootstrap-servers", f"embedded:{broken}")
    (tmp_path / "service").mkdir()
    with ServiceProcess(tmp_path / "service", *flags) as process, process.client() as client:
        assert client.put("/v1/groups/broken", json=naming(provider="embedded")).status_code == 201
        recorded = run_a_rebalance(client, "broken")

        assert "records" in recorded["output"]["error"]
        assert client.get("/v1/groups/broken").json()["state"] == "Stable"
