"""The calls over HTTP: documents that come back, and problem+json for everything that has no answer."""

import pytest
from fastapi.testclient import TestClient

from streams_runtime.membership.member_events import PartitionHosts
from streams_runtime.queries.routes import MAX_ENTRIES, create_query_app
from streams_runtime.queries.store_metadata import from_document, metadata_of
from streams_runtime.serdes import JSON, LONG, STRING
from streams_runtime.state_stores.builders import key_value_store, window_store
from tests.streams_runtime.queries.fake_instance import (
    ACTIVE,
    APPLICATION,
    ELSEWHERE,
    PARTITION,
    PARTITIONS,
    RESTORING,
    STANDBY,
    STORE,
    TASK,
    TOPIC,
    FakeInstance,
    counts,
    hosts,
    location,
    open_store,
)

THREE = {"value": 3, "value_base64": "AAAAAAAAAAM=", "timestamp_ms": None}
FROM_HERE = {"application_id": APPLICATION, "store": STORE}
READ_ALL = {"isolation_level": "read_uncommitted"}


def client(instance: FakeInstance) -> TestClient:
    return TestClient(create_query_app(instance), raise_server_exceptions=False)


def test_should_answer_a_key_with_the_copy_that_it_came_from() -> None:
    http = client(FakeInstance().show(counts(cat=3)))
    expected = {**FROM_HERE, "partition": PARTITION, "task": str(TASK), "role": "active", "lag": 0, **READ_ALL, **THREE}
    for parameters in ({"key": "cat"}, {"key_base64": "Y2F0"}):
        assert http.get(f"/v1/stores/{STORE}/key", params=parameters).json() == expected


def test_should_answer_with_any_value_as_it_is() -> None:
    builder = key_value_store(STORE, STRING, JSON, persistent=False)
    store = open_store(builder)
    value = {"_sa_name": 1, "nested": [None, {"_sa": "x"}], "text": "ä"}
    store.put("cat", value)
    instance = FakeInstance(locations={STORE: location(builder)}).show(store)
    assert client(instance).get(f"/v1/stores/{STORE}/key", params={"key": "cat"}).json()["value"] == value


@pytest.mark.parametrize(
    "path, status, code",
    [
        ("/v1/stores/nope/key?key=cat", 404, "UNKNOWN_STATE_STORE"),
        ("/v1/stores/nope", 404, "UNKNOWN_STATE_STORE"),
        ("/v1/stores/nope/entries", 404, "UNKNOWN_STATE_STORE"),
        ("/v1/stores/nope/windows?key=cat&from_ms=0&to_ms=1", 404, "UNKNOWN_STATE_STORE"),
        ("/", 404, "RESOURCE_NOT_FOUND"),
        ("/v1/store", 404, "RESOURCE_NOT_FOUND"),
        (f"/v1/stores/{STORE}/key?key=cat&partition={ELSEWHERE.partition}", 421, "INVALID_STATE_STORE_PARTITION"),
        (f"/v1/stores/{STORE}/key?key=cat&partition={PARTITIONS}", 422, "INVALID_REQUEST"),
        (f"/v1/stores/{STORE}/key?key=cat&partition=-1", 422, "INVALID_REQUEST"),
        (f"/v1/stores/{STORE}/key?key=cat&partition=x", 422, "INVALID_REQUEST"),
        (f"/v1/stores/{STORE}/key?key=cat&max_lag=-1", 422, "INVALID_REQUEST"),
        (f"/v1/stores/{STORE}/entries?isolation_level=all", 422, "INVALID_REQUEST"),
        (f"/v1/stores/{STORE}/key?key=cat&window_start_ms=5", 422, "INVALID_REQUEST"),
        (f"/v1/stores/{STORE}/key", 422, "INVALID_REQUEST"),
        (f"/v1/stores/{STORE}/key?key_base64=!", 422, "INVALID_REQUEST"),
        (f"/v1/stores/{STORE}/windows?key=cat&from_ms=0&to_ms={2**63}", 422, "INVALID_REQUEST"),
        (f"/v1/stores/{STORE}/entries?limit={MAX_ENTRIES + 1}", 422, "INVALID_REQUEST"),
        (f"/v1/stores/{STORE}/entries?from_ms=0", 422, "INVALID_REQUEST"),
        (f"/v1/stores/{STORE}/sessions?key=cat", 422, "INVALID_REQUEST"),
        (f"/v1/stores/{STORE}/sessions?key=cat&earliest_end_ms=-1", 422, "INVALID_REQUEST"),
        (f"/v1/stores/{STORE}/versions?key=cat", 422, "INVALID_REQUEST"),
        (f"/v1/stores/{STORE}/versions", 422, "INVALID_REQUEST"),
    ],
)
def test_should_refuse_as_problem_json_with_a_code(path: str, status: int, code: str) -> None:
    response = client(FakeInstance().show(counts(cat=3))).get(path)
    document = response.json()
    assert (response.status_code, document["status"], document["code"]) == (status, status, code)
    assert response.headers["content-type"] == "application/problem+json"
    assert document["type"] == f"urn:assignor:error:{code}"
    assert document["detail"]


def test_should_refuse_another_method_as_problem_json_and_name_the_right_one() -> None:
    response = client(FakeInstance()).post("/v1/stores")
    assert (response.status_code, response.headers["allow"]) == (405, "GET")
    assert response.headers["content-type"] == "application/problem+json"
    assert response.json()["detail"] == "/v1/stores is read with GET, not POST"


def test_should_list_every_store_with_its_copies_here() -> None:
    other = key_value_store("other", STRING, LONG, persistent=False)
    instance = FakeInstance(locations={STORE: location(), "other": location(other)}).show(counts(cat=3))
    copies = [{"task": str(TASK), "role": "active", "state": "running", "lag": 0}]
    assert client(instance).get("/v1/stores").json() == {
        "application_id": APPLICATION,
        "stores": [{"store": STORE, "copies": copies}, {"store": "other", "copies": []}],
    }


def test_should_say_where_it_is_when_the_key_is_not_here() -> None:
    instance = FakeInstance(maps=PartitionHosts(hosts("a:1"), hosts("b:2", "c:3")))
    document = client(instance).get(f"/v1/stores/{STORE}/key?key=cat").json()
    assert document == {
        "type": "urn:assignor:error:INVALID_STATE_STORE_PARTITION",
        "title": "Invalid state store partition",
        "status": 421,
        "code": "INVALID_STATE_STORE_PARTITION",
        "detail": f"partition {PARTITION} of 'counts' is not here; its active copy belongs to a:1",
        "partition": PARTITION,
        "active": "a:1",
        "standbys": ["b:2", "c:3"],
    }


def test_should_answer_503_when_the_instance_is_not_started_or_the_copy_is_restoring_or_stale() -> None:
    for instance, code in (
        (FakeInstance(generation=0), "STORE_NOT_READY"),
        (FakeInstance().show(counts(), ACTIVE, RESTORING, lag=5), "STORE_NOT_READY"),
        (FakeInstance().show(counts(), STANDBY, lag=5), "STALE_STORE"),
        (FakeInstance(locations={STORE: location(words=0)}).show(counts()), "STORE_NOT_READY"),
    ):
        response = client(instance).get(f"/v1/stores/{STORE}/key?key=cat")
        assert (response.status_code, response.json()["code"]) == (503, code)


def test_should_say_that_the_store_failed_when_a_value_is_not_what_its_serde_reads() -> None:
    builder = key_value_store(STORE, STRING, LONG, persistent=False)
    store = open_store(key_value_store(STORE, STRING, STRING, persistent=False))
    store.put("cat", "three")
    instance = FakeInstance(locations={STORE: location(builder)}).show(store)
    # the store was built with another serde than the one that is known of it: what is read cannot be written
    response = client(instance).get(f"/v1/stores/{STORE}/key?key=cat")
    assert (response.status_code, response.json()["code"]) == (500, "STORE_FAILED")


def test_should_list_the_copies_that_are_here_with_role_state_and_lag() -> None:
    instance = FakeInstance().show(counts(), STANDBY, lag=None, task=TASK).show_also(counts(), ACTIVE, ELSEWHERE)
    expected = {
        TASK: {"task": str(TASK), "role": "standby", "state": "running", "lag": None},
        ELSEWHERE: {"task": str(ELSEWHERE), "role": "active", "state": "running", "lag": 0},
    }
    in_order = [expected[task] for task in sorted(expected)]
    assert client(instance).get(f"/v1/stores/{STORE}").json() == {**FROM_HERE, "copies": in_order}


def test_should_list_entries_of_fresh_copies_only_by_task() -> None:
    instance = FakeInstance().show(counts(cat=3)).show_also(counts(dog=1), STANDBY, ELSEWHERE, lag=2)
    http = client(instance)
    cat = {"key": "cat", "key_base64": "Y2F0", **THREE}
    assert http.get(f"/v1/stores/{STORE}/entries").json() == {**FROM_HERE, **READ_ALL, "tasks": {str(TASK): [cat]}}
    assert http.get(f"/v1/stores/{STORE}/entries?max_lag=2").json()["tasks"].keys() == {str(TASK), str(ELSEWHERE)}


def test_should_answer_the_windows_of_a_key_that_start_in_the_range() -> None:
    builder = window_store(STORE, STRING, LONG, retention_ms=3_600_000, window_size_ms=10, persistent=False)
    store = open_store(builder)
    for start_ms in (10, 20, 30, 40):
        store.put("cat", start_ms, start_ms)
    http = client(FakeInstance(locations={STORE: location(builder)}).show(store))

    document = http.get(f"/v1/stores/{STORE}/windows?key=cat&from_ms=20&to_ms=30").json()

    assert [(one["window_start_ms"], one["value"]) for one in document["windows"]] == [(20, 20), (30, 30)]
    assert document["more"] is False


def test_should_tell_metadata_that_says_the_same_to_whoever_reads_it() -> None:
    maps = PartitionHosts(hosts("a:1"), hosts("[::1]:2", "c:3", partitions=range(0)))
    instance = FakeInstance(maps=maps, generation=7, locations={STORE: location(None, own_partitioner=True)})
    document = client(instance).get("/v1/metadata").json()
    assert document["stores"] == {
        STORE: {"subtopology": 1, "source_topics": {TOPIC: PARTITIONS}, "own_partitioner": True, "global": False}
    }
    assert from_document(document) == metadata_of(instance)


def test_should_tell_status_and_metrics_without_any_store() -> None:
    http = client(FakeInstance())
    assert http.get("/livez").json() == {"status": "ok"}
    assert http.get("/status").json() == {"state": "running"}
    assert http.get("/metrics").text == "streams_tasks 1.0\n"
    assert http.get("/openapi.json").json()["info"]["title"] == f"stores of {APPLICATION}"
