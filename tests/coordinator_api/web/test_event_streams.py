"""Event streams: what they say, how many there may be, and how they end."""

import asyncio
import socket
from dataclasses import replace
from pathlib import Path

import pytest
from fastapi import FastAPI

from assignor.protocol.shared_assignments import SharedAssignments
from coordinator_api.group.image import GroupImage, HeldRebalance, LastRebalance, RebalanceEnd, packed_assignments
from coordinator_api.group.states import GroupState, RebalanceOutcome
from coordinator_api.runtime.group_runtime import GroupRuntime
from coordinator_api.store.store_errors import NotOwner
from coordinator_api.web import event_streams
from coordinator_api.web.event_streams import rebalances_digest
from coordinator_client.access.principals import Right
from tests.coordinator_api.group_members import definition
from tests.coordinator_api.http.hostile_callers import wait_for
from tests.coordinator_api.http.tenants import Tenants, join_body, tenants
from tests.coordinator_api.service_process import ServiceProcess
from tests.coordinator_api.web.visitors import Stream, streaming

PRINCIPALS = {"rita": (Right.READER, "")}
RITA, TOM = {"authorization": "Bearer rita"}, {"authorization": "Bearer tom"}


@pytest.fixture(autouse=True)
def quick_polls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_streams, "POLL_EVERY_S", 0.1)


def app_of(service: Tenants) -> FastAPI:
    return service._app


async def digest_in(stream: Stream) -> str:
    block = await stream.next()
    assert block.startswith("event: changed\ndata: "), block
    return block.rpartition(" ")[2]


async def test_should_say_at_once_what_there_is_and_then_each_change(service: Tenants) -> None:
    olga = await service.client("olga")
    await olga.put("/v1/groups/a-1", json=definition())
    for path in ("/ui/events", "/ui/groups/a-1/events"):
        async with streaming(app_of(service), path, RITA) as stream:
            assert await stream.next() == ": hello\nretry: 2000"
            assert (stream.status, stream.headers["content-type"]) == (200, "text/event-stream; charset=utf-8")
            assert stream.headers["cache-control"] == "no-store"
            before = await digest_in(stream)
            joined = await olga.post("/v1/groups/a-1/subscriptions", json=join_body(client_id=path.replace("/", "-")))
            assert joined.is_success
            assert await digest_in(stream) != before


async def test_should_show_the_digest_that_the_stream_begins_with(service: Tenants) -> None:
    """A page that was loaded just now does not load again."""
    rita, olga = await service.client("rita"), await service.client("olga")
    await olga.put("/v1/groups/a-1", json=definition())
    for page, path in (("/ui/groups", "/ui/events"), ("/ui/groups/a-1", "/ui/groups/a-1/events")):
        shown = (await rita.get(page)).text.partition('data-digest="')[2].partition('"')[0]
        async with streaming(app_of(service), path, RITA) as stream:
            await stream.next()
            assert await digest_in(stream) == shown


async def test_should_tell_a_token_nothing_of_groups_that_it_does_not_see(service: Tenants) -> None:
    olga = await service.client("olga")
    async with streaming(app_of(service), "/ui/events", TOM) as stream:
        await stream.next()
        before = await digest_in(stream)
        await olga.put("/v1/groups/b-1", json=definition())
        await olga.put("/v1/groups/a-1", json=definition())
        after = await digest_in(stream)
    # the page waits until something is known of the new group, which is news by itself
    assert (await (await service.client("tom")).get("/ui/groups")).is_success
    async with streaming(app_of(service), "/ui/events", TOM) as stream:
        await stream.next()
        last = await digest_in(stream)
        await olga.post("/v1/groups/b-1/subscriptions", json=join_body())
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.6):
                await stream.next()

    assert before != after
    assert last


async def test_should_refuse_more_streams_than_there_may_be(tmp_path: Path) -> None:
    async with tenants(tmp_path, PRINCIPALS, page_events_max_count=1) as service:
        rita = await service.client("rita")
        async with streaming(app_of(service), "/ui/events", RITA) as stream:
            await stream.next()
            refused = await rita.get("/ui/events")
        assert (refused.status_code, refused.json()["code"]) == (429, "THROTTLING_QUOTA_EXCEEDED")
        assert "page.events.max.count" in refused.json()["detail"]
        async with streaming(app_of(service), "/ui/events", RITA) as stream:
            assert await stream.next() == ": hello\nretry: 2000"


async def test_should_say_that_it_lives_while_nothing_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_streams, "HEARTBEAT_S", 0.1)
    async with tenants(tmp_path, PRINCIPALS) as service, streaming(app_of(service), "/ui/events", RITA) as stream:
        await stream.next()
        await digest_in(stream)
        assert await stream.next() == ": still here"


async def test_should_end_when_the_token_counts_no_longer(service: Tenants) -> None:
    root = await service.client("root")
    made = await root.post("/v1/tokens", json={"name": "short", "right": "reader"})
    headers = {"authorization": f"Bearer {made.json()['token']}"}
    async with streaming(app_of(service), "/ui/events", headers) as stream:
        await stream.next()
        await digest_in(stream)
        assert (await root.delete("/v1/tokens/short")).is_success
        assert await stream.next() == ""


async def test_should_have_a_page_fetched_of_a_moved_group(service: Tenants, monkeypatch: pytest.MonkeyPatch) -> None:
    def moved(group_id: str) -> GroupRuntime:
        raise NotOwner(group_id)

    await (await service.client("olga")).put("/v1/groups/a-1", json=definition())
    async with streaming(app_of(service), "/ui/groups/a-1/time/events", RITA) as stream:
        await stream.next()
        await digest_in(stream)
        monkeypatch.setattr(app_of(service).state.coordinator, "group", moved)
        assert await digest_in(stream) == "NotOwner"


async def test_should_keep_nothing_of_streams_that_ended(service: Tenants) -> None:
    olga = await service.client("olga")
    await olga.put("/v1/groups/a-1", json=definition())
    for path in ("/ui/events", "/ui/groups/a-1/events"):
        async with streaming(app_of(service), path, RITA) as stream:
            await stream.next()
            await digest_in(stream)
    assert app_of(service).state.page_streams.count == 0
    watched = set(service.coordinator.watching._watchers)
    assert watched <= {None}, "the loop that describes groups goes on for a while"


async def test_should_end_all_streams_when_the_service_stops(service: Tenants) -> None:
    await (await service.client("olga")).put("/v1/groups/a-1", json=definition())
    async with (
        streaming(app_of(service), "/ui/events", RITA) as one,
        streaming(app_of(service), "/ui/groups/a-1/events", RITA) as other,
    ):
        for stream in (one, other):
            await stream.next()
            await digest_in(stream)
        service.coordinator.begin_stop()
        assert [await one.next(), await other.next()] == ["", ""]


def test_should_end_a_stream_whose_caller_hung_up_with_another_request_behind_it(tmp_path: Path) -> None:
    """uvicorn tells only the last request of a connection that it broke."""
    with ServiceProcess(tmp_path, "--page-events-max-count", "1") as service, service.client() as client:
        host, port = client.base_url.host, client.base_url.port
        request = "GET {} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
        with socket.create_connection((host, port), timeout=30) as raw:
            raw.sendall("".join(map(request.format, ("/ui/events", "/livez"))).encode())
            assert raw.recv(1_000).startswith(b"HTTP/1.1 200 OK")

        def status_of_another() -> int:
            with client.stream("GET", "/ui/events") as answer:
                return answer.status_code

        wait_for(lambda: status_of_another() == 200)


# --- digests of recorded rebalances: each that ends, and one that is held


SETTLED = RebalanceEnd(RebalanceOutcome.STABLE)
FIRST = GroupImage(GroupState.STABLE, generation_id=1, last_rebalance=LastRebalance(1, None, 1, SETTLED))
COMPUTED = replace(FIRST, state=GroupState.COMPLETING_REBALANCE, generation_id=2)
HELD = replace(COMPUTED, held=HeldRebalance(0, SETTLED, packed_assignments(SharedAssignments({}))))
SECOND = replace(FIRST, generation_id=2, last_rebalance=LastRebalance(2, None, 1, SETTLED))


def test_should_tell_of_a_rebalance_that_has_ended_or_waits_for_approval_not_of_a_new_generation() -> None:
    prepared = replace(FIRST, state=GroupState.PREPARING_REBALANCE)

    digests = [rebalances_digest(image) for image in (GroupImage(), FIRST, prepared, COMPUTED, HELD, SECOND)]

    assert digests == ["none", "1-stable", "1-stable", "1-stable", "1-stable-2-held", "2-stable"]
