"""A client among instances that move, are behind, hang, are gone, or were never what they seemed."""

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from assignor.errors import InputError
from streams_runtime.common.states import GLOBAL_TASK
from streams_runtime.logs.base import IsolationLevel
from streams_runtime.logs.partitioner import partition_of
from streams_runtime.membership.member_events import PartitionHosts
from streams_runtime.queries import client as client_module
from streams_runtime.queries.client import QueryFailed, StateStoreClient, Tries
from streams_runtime.queries.problems import QueryCode
from streams_runtime.queries.query_results import (
    CopyAnswered,
    SessionValue,
    StoreSessions,
    StoreValue,
    StoreVersions,
    StoreWindows,
    VersionValue,
    WindowValue,
)
from streams_runtime.queries.server import QueryServer
from streams_runtime.queries.store_metadata import KeyQueryMetadata, StoreCopy
from streams_runtime.serdes import BYTES, LONG, STRING
from streams_runtime.state_stores.builders import (
    key_value_store,
    session_store,
    versioned_key_value_store,
    window_store,
)
from streams_runtime.state_stores.state_store import Windowed
from tests.streams_runtime.queries.fake_instance import (
    ACTIVE,
    ELSEWHERE,
    KEY,
    PARTITION,
    PARTITIONS,
    RESTORING,
    STANDBY,
    STORE,
    TASK,
    FakeInstance,
    counts,
    host_of,
    hosts,
    location,
    open_store,
)

SHORT_S = 0.4
QUICKLY_S = 3.0
ALL = IsolationLevel.READ_UNCOMMITTED  # stores in memory do not keep their committed state apart
THREE, FOUR = LONG.serialize(3), LONG.serialize(4)


class Servers:
    """Instances that are set by hand, behind real endpoints."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack

    def serve(self, instance: FakeInstance) -> str:
        server = self._stack.enter_context(closing(QueryServer("127.0.0.1:0")))
        server.start(instance)
        return str(server.endpoint)

    def serve_alone(self, instance: FakeInstance) -> str:
        """As the only instance, which knows that it has everything."""
        address = self.serve(instance)
        instance.maps = PartitionHosts(hosts(address))
        return address

    def client(self, *addresses: str, **more: Any) -> StateStoreClient:
        return self._stack.enter_context(StateStoreClient(addresses, **{"timeout_s": QUICKLY_S, **more}))


@pytest.fixture
def servers() -> Iterator[Servers]:
    with ExitStack() as stack:
        yield Servers(stack)


def gone() -> str:
    """An address that refuses connections."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return f"127.0.0.1:{server.getsockname()[1]}"


@contextlib.contextmanager
def hanging() -> Iterator[str]:
    """An address that accepts connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


class Metadata(FakeInstance):
    """Counts how often it is asked who has what."""

    times = 0

    def host_maps(self) -> PartitionHosts:
        type(self).times += 1
        return self.maps


class Moving(FakeInstance):
    """Its copy comes with the third look."""

    def store_copies(self, store: str) -> list[StoreCopy]:
        self.asked += 1
        return list(self.shown) if self.asked >= 3 else []


def know(maps: PartitionHosts, *instances: FakeInstance) -> None:
    for instance in instances:
        instance.maps = maps


# --- who is asked


def test_should_get_the_value_from_the_active_copy_wherever_it_asks_first(servers: Servers) -> None:
    active, standby = FakeInstance().show(counts(cat=3)), FakeInstance().show(counts(cat=2), STANDBY, lag=1)
    first, second = servers.serve(active), servers.serve(standby)
    know(PartitionHosts(hosts(first), hosts(second)), active, standby)
    for addresses in ([first], [second], [first, second]):
        client = servers.client(*addresses)
        assert client.get(STORE, KEY) == StoreValue(THREE, None, CopyAnswered(first, "active", 0, ALL))
        assert client.get(STORE, KEY, max_lag=5) == StoreValue(THREE, None, CopyAnswered(first, "active", 0, ALL))
        assert client.key_metadata(STORE, KEY) == KeyQueryMetadata(PARTITION, host_of(first), (host_of(second),))


def test_should_tell_no_value_from_an_empty_one(servers: Servers) -> None:
    builder = key_value_store(STORE, STRING, BYTES, persistent=False)
    store = open_store(builder)
    store.put("cat", b"")
    instance = FakeInstance(locations={STORE: location(builder)}).show(store)
    address = servers.serve_alone(instance)
    assert servers.client(address).get(STORE, KEY).value == b""


def test_should_ask_the_least_lagging_standby_within_the_lag_when_the_active_is_gone(servers: Servers) -> None:
    behind, near = (
        FakeInstance().show(counts(cat=2), STANDBY, lag=9),
        FakeInstance().show(counts(cat=3), STANDBY, lag=4),
    )
    first, second = servers.serve(behind), servers.serve(near)
    know(PartitionHosts(hosts(gone()), hosts(first, second)), behind, near)
    client = servers.client(first, second, timeout_s=SHORT_S)
    for max_lag in (4, 8, 9, 100):
        assert client.get(STORE, KEY, max_lag=max_lag) == StoreValue(
            THREE, None, CopyAnswered(second, "standby", 4, ALL)
        )
    with pytest.raises(QueryFailed, match="its lag is 4, at most 3 asked"):
        client.get(STORE, KEY, max_lag=3)


def test_should_ask_no_standby_when_no_lag_is_accepted(servers: Servers) -> None:
    standby = FakeInstance().show(counts(cat=3), STANDBY, lag=0)
    address = servers.serve(standby)
    know(PartitionHosts({}, hosts(address)), standby)
    with pytest.raises(QueryFailed, match="no instance is known to have its active copy") as failed:
        servers.client(address, timeout_s=SHORT_S).get(STORE, KEY)
    assert failed.value.code is None
    assert standby.asked == 0


def test_should_prefer_a_standby_that_is_nearer_than_a_restoring_active_copy(servers: Servers) -> None:
    active, standby = FakeInstance().show(counts(), ACTIVE, RESTORING, lag=90), FakeInstance()
    standby.show(counts(cat=3), STANDBY, lag=1)
    first, second = servers.serve(active), servers.serve(standby)
    know(PartitionHosts(hosts(first), hosts(second)), active, standby)
    assert servers.client(first).get(STORE, KEY, max_lag=100).source == CopyAnswered(second, "standby", 1, ALL)


@pytest.mark.parametrize("key", [b"", b"\x00", b"\xff\xfe", b"a+b/c=&?#", "käse".encode(), bytes(range(256))])
def test_should_find_keys_of_any_bytes(servers: Servers, key: bytes) -> None:
    builder = key_value_store(STORE, BYTES, BYTES, persistent=False)
    store = open_store(builder)
    store.put(key, key[::-1])
    instance = FakeInstance(locations={STORE: location(builder)})
    instance.show(store, task=TASK._replace(partition=partition_of(key, PARTITIONS)))
    address = servers.serve_alone(instance)
    assert servers.client(address).get(STORE, key).value == key[::-1]


def test_should_ask_the_callers_partition_when_the_application_has_its_partitioner(servers: Servers) -> None:
    instance = FakeInstance(locations={STORE: location(own_partitioner=True)}).show(counts(cat=3), task=ELSEWHERE)
    address = servers.serve_alone(instance)
    client = servers.client(address)
    assert client.get(STORE, KEY, partition=ELSEWHERE.partition).value == THREE
    with pytest.raises(QueryFailed, match="say the partition") as failed:
        client.get(STORE, KEY)
    assert failed.value.code is QueryCode.INVALID_REQUEST


def test_should_get_windows_of_a_key(servers: Servers) -> None:
    builder = window_store(STORE, STRING, LONG, retention_ms=3_600_000, window_size_ms=10, persistent=False)
    store = open_store(builder)
    for start_ms in (10, 20, 30):
        store.put("cat", 3, start_ms)
    instance = FakeInstance(locations={STORE: location(builder)}).show(store)
    address = servers.serve_alone(instance)
    client = servers.client(address)
    source = CopyAnswered(address, "active", 0, ALL)
    both = (WindowValue(10, THREE, None), WindowValue(20, THREE, None))
    assert client.windows(STORE, KEY, 10, 30, limit=2) == StoreWindows(both, True, source)
    assert client.windows(STORE, KEY, 0, 20) == StoreWindows(both, False, source)
    assert client.get(STORE, KEY, window_start_ms=30) == StoreValue(THREE, None, source)
    assert client.get(STORE, KEY, window_start_ms=40) == StoreValue(None, None, source)


def test_should_get_sessions_of_a_key(servers: Servers) -> None:
    builder = session_store(STORE, STRING, LONG, retention_ms=3_600_000, persistent=False)
    store = open_store(builder)
    for start_ms, end_ms in ((10, 15), (30, 30), (50, 60)):
        store.put(Windowed("cat", start_ms, end_ms), 3)
    store.put(Windowed("dog", 10, 15), 4)
    instance = FakeInstance(locations={STORE: location(builder)}).show(store)
    address = servers.serve_alone(instance)
    client = servers.client(address)
    source = CopyAnswered(address, "active", 0, ALL)
    first, second, third = SessionValue(10, 15, THREE), SessionValue(30, 30, THREE), SessionValue(50, 60, THREE)
    assert client.sessions(STORE, KEY) == StoreSessions((first, second, third), False, source)
    assert client.sessions(STORE, KEY, limit=2) == StoreSessions((first, second), True, source)
    assert client.sessions(STORE, KEY, earliest_end_ms=16).sessions == (second, third)
    assert client.sessions(STORE, KEY, earliest_end_ms=15, latest_start_ms=30).sessions == (first, second)
    assert client.sessions(STORE, KEY, latest_start_ms=9).sessions == ()
    with pytest.raises(QueryFailed, match="is a session store: ask for /sessions of a key") as failed:
        client.get(STORE, KEY)
    assert failed.value.code is QueryCode.INVALID_REQUEST


def test_should_get_versions_of_a_key(servers: Servers, tmp_path: Path) -> None:
    builder = versioned_key_value_store(STORE, STRING, LONG, history_retention_ms=3_600_000)
    store = open_store(builder, tmp_path)
    for value, timestamp_ms in ((3, 10), (4, 20), (None, 30), (3, 40)):
        store.put("cat", value, timestamp_ms)
    store.commit(None)
    instance = FakeInstance(locations={STORE: location(builder)}).show(store)
    address = servers.serve_alone(instance)
    client = servers.client(address)
    source = CopyAnswered(address, "active", 0, IsolationLevel.READ_COMMITTED)
    newest, second, oldest = VersionValue(THREE, 40, None), VersionValue(FOUR, 20, 30), VersionValue(THREE, 10, 20)
    assert client.versions(STORE, KEY) == StoreVersions((newest, second, oldest), False, source)
    assert client.versions(STORE, KEY, limit=1) == StoreVersions((newest,), True, source)
    assert client.versions(STORE, KEY, 20, 39).versions == (second,)
    assert client.versions(STORE, KEY, 30, 39).versions == ()
    assert client.versions(STORE, KEY, to_ms=19).versions == (oldest,)
    with pytest.raises(QueryFailed, match=r"from_ms \(2\) is greater than to_ms \(1\)") as failed:
        client.versions(STORE, KEY, 2, 1)
    assert failed.value.code is QueryCode.INVALID_REQUEST
    store.close()


# --- what is asked again


def test_should_ask_again_until_a_copy_that_is_on_its_way_has_come(servers: Servers) -> None:
    instance = Moving().show(counts(cat=3))
    address = servers.serve_alone(instance)
    assert servers.client(address).get(STORE, KEY).value == THREE
    assert instance.asked == 4, "twice in vain, then before and after the read"


def test_should_follow_the_partition_when_it_moves_to_another_instance(servers: Servers) -> None:
    old, new = FakeInstance().show(counts(cat=3)), FakeInstance(generation=2).show(counts(cat=4))
    first, second = servers.serve(old), servers.serve(new)
    know(PartitionHosts(hosts(first), hosts(second)), old)
    client = servers.client(first)
    assert client.get(STORE, KEY).value == THREE
    old.show_nothing()
    old.generation = 2
    know(PartitionHosts(hosts(second), hosts(first)), old, new)
    assert client.get(STORE, KEY) == StoreValue(FOUR, None, CopyAnswered(second, "active", 0, ALL))


def test_should_go_on_within_its_time_when_instances_hang(servers: Servers) -> None:
    survivor = FakeInstance().show(counts(cat=3))
    address = servers.serve(survivor)
    with hanging() as first, hanging() as second:
        know(PartitionHosts(hosts(address), hosts(first)), survivor)
        client = servers.client(first, second, address, timeout_s=4.0)
        began_s = time.monotonic()
        assert client.get(STORE, KEY).value == THREE
        assert 1.9 < time.monotonic() - began_s < 3.8, "a quarter of its time for each of the two"


def test_should_give_a_call_no_more_time_than_the_query_has_left(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now_s)
    tries, short = Tries(10.0), Tries(0.4)
    assert (tries.call_s(), short.call_s()) == (2.0, 0.1)
    now_s = 109.5
    assert (tries.call_s(), short.call_s()) == (0.5, client_module.SHORTEST_CALL_S)


def test_should_end_in_time_when_the_only_active_copy_hangs(servers: Servers) -> None:
    instance = FakeInstance()
    address = servers.serve(instance)
    with hanging() as active:
        know(PartitionHosts(hosts(active)), instance)
        client = servers.client(address, timeout_s=0.8)
        began_s = time.monotonic()
        with pytest.raises(QueryFailed, match=f"within 0.8 s .*{active}: cannot be reached: timed out"):
            client.get(STORE, KEY)
        assert time.monotonic() - began_s < 1.5


def test_should_tell_what_each_host_said_when_time_runs_out(servers: Servers) -> None:
    killed = gone()
    restoring, stale = FakeInstance(), FakeInstance().show(counts(), STANDBY, lag=9)
    restoring.show(counts(), ACTIVE, RESTORING, lag=50)
    first, second = servers.serve(restoring), servers.serve(stale)
    know(PartitionHosts(hosts(first), hosts(second, killed)), restoring, stale)
    # All three have to answer within the time, on a busy machine, too.
    with pytest.raises(QueryFailed, match="no answer for a key of 'counts' within 2 s") as failed:
        servers.client(killed, first, timeout_s=2).get(STORE, KEY, max_lag=8)
    assert failed.value.tried.keys() == {killed, first, second}
    assert failed.value.code is None
    assert "Connection refused" in failed.value.tried[killed]
    assert f"the standby copy of partition {PARTITION} of 'counts' is running, its lag is 9" in str(failed.value)
    assert failed.value.tried[first].startswith("the active copy of partition")


def test_should_pass_over_an_instance_that_has_no_assignment_yet(servers: Servers) -> None:
    new, old = FakeInstance(generation=0), FakeInstance().show(counts(cat=3))
    first, second = servers.serve(new), servers.serve(old)
    know(PartitionHosts(hosts(second)), old)
    assert servers.client(first, second).get(STORE, KEY).value == THREE
    with pytest.raises(QueryFailed, match=f"{first}: has no assignment yet"):
        servers.client(first, timeout_s=SHORT_S).get(STORE, KEY)


def test_should_ask_any_instance_for_a_global_store_before_there_is_an_assignment(servers: Servers) -> None:
    both = {"countries": replace(location(), name="countries", is_global=True), STORE: location()}
    countries = open_store(key_value_store("countries", STRING, LONG, persistent=False))
    countries.put("cat", 3)
    instances = [FakeInstance(generation=0, locations=both).show(countries, task=GLOBAL_TASK) for _ in range(2)]
    addresses = [servers.serve(instance) for instance in instances]
    for address, instance in zip(addresses, instances, strict=True):
        know(PartitionHosts({host_of(address): frozenset()}), instance)
    client = servers.client(*addresses)
    assert client.get("countries", KEY).value == THREE
    instances[0].show_nothing()
    assert client.get("countries", KEY).source.host == addresses[1]
    with pytest.raises(QueryFailed, match=f"{addresses[0]}: has no assignment yet"):
        servers.client(*addresses, timeout_s=SHORT_S).get(STORE, KEY)


def test_should_wait_for_topics_that_are_not_known_yet(servers: Servers) -> None:
    instance = FakeInstance(locations={STORE: location(words=0)}).show(counts(cat=3))
    address = servers.serve_alone(instance)
    with pytest.raises(QueryFailed, match="waits for topics: words not known yet"):
        servers.client(address, timeout_s=SHORT_S).get(STORE, KEY)


def test_should_ask_again_when_a_store_fails(servers: Servers) -> None:
    class Failing(FakeInstance):
        def store_copies(self, store: str) -> list[StoreCopy]:
            raise RuntimeError("no idea")

    instance = Failing()
    address = servers.serve_alone(instance)
    with pytest.raises(QueryFailed, match=f"{address}: answered 500"):
        servers.client(address, timeout_s=SHORT_S).get(STORE, KEY)


# --- what fails at once


@pytest.mark.parametrize(
    "ask, code, reason",
    [
        (
            lambda client: client.get("nope", KEY),
            QueryCode.UNKNOWN_STATE_STORE,
            "no state store 'nope'; there are: counts",
        ),
        (lambda client: client.get("a/b?c", KEY), QueryCode.UNKNOWN_STATE_STORE, "no state store"),
        (lambda client: client.key_metadata("nope", KEY), QueryCode.UNKNOWN_STATE_STORE, "no state store 'nope'"),
        (lambda client: client.get(STORE, KEY, partition=4), QueryCode.INVALID_REQUEST, "partitions 0 to 3, not 4"),
        (lambda client: client.get(STORE, b"\xff", partition=0), QueryCode.INVALID_REQUEST, "no key of 'counts'"),
        (lambda client: client.get(STORE, KEY, window_start_ms=1), QueryCode.INVALID_REQUEST, "no window store"),
        (lambda client: client.get(STORE, KEY, max_lag=-1), QueryCode.INVALID_REQUEST, "max_lag"),
        (lambda client: client.windows(STORE, KEY, 0, 1), QueryCode.INVALID_REQUEST, "no window store"),
    ],
)
def test_should_fail_at_once_when_there_can_never_be_an_answer(
    servers: Servers, ask: Callable[[StateStoreClient], object], code: QueryCode, reason: str
) -> None:
    instance = Metadata().show(counts(cat=3))
    address = servers.serve_alone(instance)
    Metadata.times = 0
    client = servers.client(address, timeout_s=60.0)
    with pytest.raises(QueryFailed, match=reason) as failed:
        ask(client)
    assert failed.value.code is code
    assert Metadata.times <= 2, "who has what was asked once; once more by the host to find the key"


def test_should_fail_at_once_when_the_host_does_not_know_the_store(servers: Servers) -> None:
    """In a rolling upgrade, the metadata of a newer instance may name stores that an older one does not have."""
    old, new = FakeInstance(locations={}), FakeInstance()
    first, second = servers.serve(old), servers.serve(new)
    know(PartitionHosts(hosts(first)), new)
    with pytest.raises(QueryFailed, match="there is no state store 'counts'; there are: none") as failed:
        servers.client(second, timeout_s=60.0).get(STORE, KEY)
    assert failed.value.code is QueryCode.UNKNOWN_STATE_STORE


def test_should_say_which_copies_a_host_has(servers: Servers) -> None:
    address = servers.serve(FakeInstance().show(counts(), STANDBY, lag=5))
    client = servers.client(address)
    assert client.copies(address, STORE) == [{"task": str(TASK), "role": "standby", "state": "running", "lag": 5}]
    with pytest.raises(QueryFailed, match="no state store"):
        client.copies(address, "nope")
    with pytest.raises(QueryFailed, match="does not say which copies"):
        client.copies(gone(), STORE)


# --- who is believed


def test_should_believe_the_newest_generation_when_an_instance_was_cut_off(servers: Servers) -> None:
    zombie, owner = FakeInstance(generation=4).show(counts(cat=3)), FakeInstance(generation=5).show(counts(cat=4))
    first, second = servers.serve(zombie), servers.serve(owner)
    know(PartitionHosts(hosts(first), hosts(second)), zombie)
    know(PartitionHosts(hosts(second)), owner)
    assert servers.client(first, second).get(STORE, KEY).value == FOUR


def test_should_leave_a_zombie_when_its_metadata_is_old(servers: Servers, monkeypatch: pytest.MonkeyPatch) -> None:
    """It knows a host that was new to the client, and that one knows better."""
    zombie, owner = FakeInstance(generation=4).show(counts(cat=3)), FakeInstance(generation=5).show(counts(cat=4))
    first, second = servers.serve(zombie), servers.serve(owner)
    know(PartitionHosts(hosts(first), hosts(second)), zombie)
    know(PartitionHosts(hosts(second)), owner)
    client = servers.client(first)
    assert client.get(STORE, KEY).value == THREE
    monkeypatch.setattr(client_module, "METADATA_AGE_S", 0.0)
    assert client.get(STORE, KEY).value == FOUR


def test_should_keep_what_it_knows_when_nobody_knows_better(servers: Servers, monkeypatch: pytest.MonkeyPatch) -> None:
    """The instance has just left its group and says so, but it still has the copy."""
    instance = FakeInstance().show(counts(cat=3))
    address = servers.serve_alone(instance)
    client = servers.client(address)
    assert client.get(STORE, KEY).value == THREE
    monkeypatch.setattr(client_module, "METADATA_AGE_S", 0.0)
    instance.generation = 0
    assert client.get(STORE, KEY).value == THREE


def test_should_not_take_answers_from_another_application_that_got_the_port(servers: Servers) -> None:
    other = FakeInstance(application_id="other").show(counts(cat=9))
    address = servers.serve_alone(other)
    with pytest.raises(QueryFailed, match=f"{address}: serves the application other, not app"):
        servers.client(address, application_id="app", timeout_s=SHORT_S).get(STORE, KEY)
    ours = FakeInstance()
    known = servers.serve(ours)
    know(PartitionHosts(hosts(address)), ours)
    with pytest.raises(QueryFailed, match=f"{address}: serves the application other, not app"):
        servers.client(known, timeout_s=SHORT_S).get(STORE, KEY)


def test_should_not_believe_what_no_query_server_says(servers: Servers) -> None:
    class Nonsense(FakeInstance):
        def host_maps(self) -> Any:
            return PartitionHosts({"nowhere": frozenset()})  # type: ignore[dict-item]

    address = servers.serve(Nonsense())
    with pytest.raises(QueryFailed, match=f"{address}: answered something that no query server says"):
        servers.client(address, timeout_s=SHORT_S).get(STORE, KEY)


# --- its end


def test_should_need_an_address_and_take_none_that_may_hold_a_password() -> None:
    with pytest.raises(InputError, match="instances: is empty"):
        StateStoreClient([])
    with pytest.raises(InputError, match="instances: must be host:port, without a user or a password") as refused:
        StateStoreClient(["host-1:7070", "ann:s3cr3t@host-2:7070"])
    assert "s3cr3t" not in str(refused.value)


def test_should_refuse_to_ask_when_it_is_closed(servers: Servers) -> None:
    client = servers.client(gone())
    client.close()
    client.close()
    for ask in (lambda: client.get(STORE, KEY), lambda: client.copies(gone(), STORE)):
        with pytest.raises(QueryFailed, match="this client is closed"):
            ask()


@pytest.mark.parametrize("hangs", [True, False])
def test_should_end_waiting_queries_when_it_is_closed(servers: Servers, hangs: bool) -> None:
    with hanging() as hung, ThreadPoolExecutor(1) as pool:
        client = servers.client(hung if hangs else gone(), timeout_s=2.0 if hangs else 60.0)
        asking = pool.submit(client.get, STORE, KEY)
        while not client_is_asking():
            time.sleep(0.001)
        client.close()
        assert isinstance(asking.exception(QUICKLY_S), QueryFailed)
        assert "this client is closed" in str(asking.exception())


def client_is_asking() -> bool:
    return any("ThreadPoolExecutor" in thread.name for thread in threading.enumerate())


def test_should_serve_many_threads_while_the_partition_moves_to_and_fro(servers: Servers) -> None:
    """Whoever does not have it says so; nobody ever hears "no such key"."""
    instances = FakeInstance(), FakeInstance()
    addresses = [servers.serve(instance) for instance in instances]
    full = counts(cat=3)
    stop = threading.Event()
    client = servers.client(*addresses, timeout_s=10.0)

    def move() -> None:
        turn = 0
        while not stop.is_set():
            for instance in instances:
                instance.show_nothing()
            turn += 1
            know(PartitionHosts(hosts(addresses[turn % 2])), *instances)
            for instance in instances:
                instance.generation = turn
            instances[turn % 2].show(full)
            stop.wait(0.02)

    move_once = threading.Thread(target=move)
    move_once.start()
    try:
        with ThreadPoolExecutor(8) as pool:
            answers = list(pool.map(lambda _: client.get(STORE, KEY).value, range(60)))
    finally:
        stop.set()
        move_once.join()
    assert answers == [THREE] * 60
