"""What the list shows beside states is made while a page is open, and no longer."""

import asyncio
import threading
from pathlib import Path

import pytest

from assignor.pipeline.snapshot import RebalanceSnapshot
from assignor.recording import parse_rebalance_input
from coordinator_api.errors import TooManyRequests
from coordinator_api.group.events import SetLever
from coordinator_api.group.group_levers import LeverName
from coordinator_api.group.image import GroupImage, LastRebalance, RebalanceBasis, RebalanceEnd
from coordinator_api.group.states import RebalanceOutcome
from coordinator_api.http.group_document import described_group
from coordinator_api.http.models.group_models import GroupAnswer, GroupLine, GroupList
from coordinator_api.runtime.clusters import ProviderAddress
from coordinator_api.runtime.definitions import Definition
from coordinator_api.web import group_documents, group_summaries
from coordinator_api.web.group_documents import GroupDocuments, task_total
from coordinator_api.web.group_summaries import GroupSummaries, SummarizedList, digest_of
from coordinator_client.access.principals import Right
from tests.coordinator_api.group_members import CHANGELOG, TOPIC, definition
from tests.coordinator_api.http.tenants import Tenants, join_body, tenants
from tests.coordinator_api.reported_rebalances import FIRST
from tests.coordinator_api.web.visitors import settled_member

PRINCIPALS = {"olga": (Right.OPERATOR, "")}


async def with_groups(service: Tenants, *names: str) -> GroupSummaries:
    olga = await service.client("olga")
    for name in names:
        assert (await olga.put(f"/v1/groups/{name}", json=definition())).status_code == 201
    return GroupSummaries(service.coordinator, GroupDocuments(service.coordinator))


async def nothing_elsewhere() -> list[GroupList]:
    return []


def known(summaries: GroupSummaries) -> dict[str, bool]:
    return {each.group_id: each.tasks is not None for each in summaries.listed(lambda _: True).groups}


async def test_should_know_each_group_when_a_page_is_opened(service: Tenants, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_summaries, "LONGEST_FIRST_WAIT_S", 60.0)
    summaries = await with_groups(service, "a", "b")
    assert known(summaries) == {"a": False, "b": False}

    await summaries.known()

    assert known(summaries) == {"a": True, "b": True}


async def test_should_forget_a_group_of_a_silent_owner(service: Tenants, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_summaries, "LONGEST_FIRST_WAIT_S", 60.0)
    summaries = await with_groups(service, "a")
    await summaries.known()
    (line,) = summaries.listed(lambda _: True).groups
    unknown = GroupLine(**{name: getattr(line, name) for name in GroupLine.model_fields})
    service.coordinator.lose("a")

    (listed,) = summaries.listed(lambda _: True, [GroupList(groups=[unknown])]).groups

    assert line.tasks == 4
    assert listed.tasks is None


async def test_should_end_when_no_page_is_open_any_more(service: Tenants, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_summaries, "LONGEST_FIRST_WAIT_S", 60.0)
    summaries = await with_groups(service, "a")
    stream = summaries.digests(lambda _: True, nothing_elsewhere)
    await anext(stream)
    going_on = summaries._loop
    assert going_on is not None
    await stream.aclose()
    summaries._goes_on_until_s = 0.0

    await asyncio.wait_for(going_on, 60)

    assert (known(summaries), service.coordinator.watching._watchers) == ({"a": False}, {})


async def test_should_make_a_digest_beside_the_loop(service: Tenants, monkeypatch: pytest.MonkeyPatch) -> None:
    loop, went_on = asyncio.get_running_loop(), threading.Event()

    def slow(listed: SummarizedList) -> str:
        loop.call_soon_threadsafe(went_on.set)
        assert went_on.wait(60), "the loop waits for the digest"
        return digest_of(listed)

    monkeypatch.setattr(group_summaries, "digest_of", slow)
    summaries = await with_groups(service, "a")
    stream = summaries.digests(lambda _: True, nothing_elsewhere)

    assert await anext(stream) is not None

    await stream.aclose()


async def test_should_leave_an_overloaded_service_alone(service: Tenants, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_summaries, "LONGEST_FIRST_WAIT_S", 0.2)

    def refuse(kind: str) -> None:
        raise TooManyRequests(f"each {kind} is refused")

    summaries = await with_groups(service, "a")
    service.coordinator.overload.admit = refuse  # type: ignore[method-assign]

    await summaries.known()

    assert known(summaries) == {"a": False}
    service.coordinator.begin_stop()


async def test_should_show_the_health_with_the_lags_until_the_next_commit(
    service: Tenants, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_summaries, "LONGEST_FIRST_WAIT_S", 60.0)
    await settled_member(service, "a")
    summaries = GroupSummaries(service.coordinator, GroupDocuments(service.coordinator))

    def reasons() -> list[str]:
        (line,) = summaries.listed(lambda _: True).groups
        return [each.code for each in line.reasons]

    assert reasons() == []
    await summaries.known()
    assert reasons() == ["RESTORING"]

    def refuse(kind: str) -> None:
        raise TooManyRequests(f"each {kind} is refused")

    service.coordinator.overload.admit = refuse  # type: ignore[method-assign]
    await service.coordinator.group("a").handle(SetLever(LeverName.PAUSE, True, "olga", None))
    assert (reasons(), known(summaries)) == (["PAUSED"], {"a": True})
    service.coordinator.begin_stop()


async def test_should_describe_a_group_once_for_all_callers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    described = []
    real = described_group

    async def counting(*arguments: object) -> GroupAnswer:
        described.append(1)
        return await real(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(group_documents, "described_group", counting)
    monkeypatch.setattr(group_documents, "KEPT_S", 3_600.0)
    # the rebalance after the join would be a commit of its own, at any time
    async with tenants(tmp_path, PRINCIPALS, group_initial_rebalance_delay_ms=3_600_000) as service:
        await with_groups(service, "a")
        documents = GroupDocuments(service.coordinator)

        found = await asyncio.gather(*(documents.now("a") for _ in range(20)))
        again = await documents.now("a")
        assert len(described) == 1
        assert len({each.digest for each in found}) == 1
        assert again is found[0]

        joined = await (await service.client("olga")).post("/v1/groups/a/subscriptions", json=join_body())
        assert joined.is_success
        after = await documents.now("a")
        assert len(described) == 2
        assert after.digest != again.digest
        assert len(after.values["members"]) == 1


# --- how many tasks a group has, whether or not anybody runs them


NO_CLUSTER: dict[str, object] = {"brokers": [{"id": 0, "rack": None}], "topics": {}}
KAFKA = ProviderAddress("kafka", "broker:9092")


def snapshot(**changes: object) -> RebalanceSnapshot:
    document = definition(partitions=6)
    return parse_rebalance_input({**document, **changes, "leader_process_id": FIRST, "members": {}})


def after(topics: dict[str, int]) -> GroupImage:
    end = RebalanceEnd(RebalanceOutcome.STABLE)
    return GroupImage(last_rebalance=LastRebalance(1, None, 1, end, RebalanceBasis("", topics)))


def test_should_count_the_tasks_over_the_topics_of_a_definition() -> None:
    assert task_total(Definition(snapshot(), None), GroupImage()) == 6


def test_should_know_nothing_while_topics_are_missing() -> None:
    assert task_total(Definition(snapshot(cluster=NO_CLUSTER), None), GroupImage()) is None
    assert task_total(Definition(snapshot(cluster=NO_CLUSTER), KAFKA), after({TOPIC: 0, CHANGELOG: 0})) is None


def test_should_count_over_the_topics_of_the_last_rebalance_when_the_cluster_is_elsewhere() -> None:
    elsewhere = Definition(snapshot(cluster=NO_CLUSTER, existing_internal_topics={}), KAFKA)

    assert task_total(elsewhere, GroupImage()) is None
    assert task_total(elsewhere, after({TOPIC: 5, CHANGELOG: 5})) == 5
