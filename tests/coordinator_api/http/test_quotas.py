"""Quotas of a tenant: exact however many come at one time, of the tenant's own groups only, and no member suffers."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator_api.runtime.admission import Quotas
from coordinator_api.settings import Settings
from coordinator_api.store.repository import Repository, Written
from coordinator_api.store.store_errors import StoreBusy, StoreError
from coordinator_client.access.principals import Right
from tests.coordinator_api.group_members import definition, problem
from tests.coordinator_api.http.tenants import Tenants, join_body, tenants
from tests.coordinator_api.reported_rebalances import reported

PRINCIPALS = {
    "all": (Right.ADMIN, ""),
    "outer": (Right.OPERATOR, "a-"),
    "inner": (Right.OPERATOR, "a-b-"),
    "other": (Right.OPERATOR, "z-"),
}
OVER = (429, "POLICY_VIOLATION")


async def declare(client: httpx.AsyncClient, group_id: str, **changes: Any) -> httpx.Response:
    return await client.put(f"/v1/groups/{group_id}", json=definition(**changes))


async def join(client: httpx.AsyncClient, group_id: str, **changes: object) -> httpx.Response:
    return await client.post(f"/v1/groups/{group_id}/subscriptions", json=join_body(**changes))


async def quotas(client: httpx.AsyncClient) -> Any:
    return (await client.get("/v1/groups")).json()["quotas"]


def statuses(answers: Sequence[httpx.Response]) -> list[int]:
    return sorted(answer.status_code for answer in answers)


async def test_should_take_as_many_new_groups_as_allowed_when_all_come_at_one_time(tmp_path: Path) -> None:
    async with tenants(tmp_path, PRINCIPALS, tenant_max_groups=3) as service:
        outer, other = await service.client("outer"), await service.client("other")
        answers = await asyncio.gather(*(declare(outer, f"a-{number}") for number in range(8)))
        refused = next(answer for answer in answers if answer.status_code == 429)

        assert statuses(answers) == [201] * 3 + [429] * 5
        assert problem(refused) == OVER
        assert refused.json()["detail"] == (
            "the groups whose ids begin with a- are 3, and 3 are allowed (tenant.max.groups)"
        )
        assert (await declare(other, "z-1")).status_code == 201
        assert problem(await outer.post("/v1/groups/a-new/rebalances", json=reported("a-new", 1))) == OVER
        known = next(each["group_id"] for each in (await outer.get("/v1/groups")).json()["groups"])
        assert (await declare(outer, known, partitions=5)).status_code == 200
        assert (await outer.delete(f"/v1/groups/{known}")).status_code == 204
        assert (await declare(outer, "a-next")).status_code == 201


async def test_should_take_as_many_new_members_as_allowed_when_all_come_at_one_time(tmp_path: Path) -> None:
    async with tenants(tmp_path, PRINCIPALS, tenant_max_members=5) as service:
        outer, other = await service.client("outer"), await service.client("other")
        for group_id in ("a-1", "a-2", "a-3"):
            await declare(outer, group_id)
        answers = await asyncio.gather(*(join(outer, f"a-{1 + number % 3}") for number in range(20)))
        refused = next(answer for answer in answers if answer.status_code == 429)

        assert statuses(answers) == [201] * 5 + [429] * 15
        assert problem(refused) == OVER
        assert refused.json()["detail"] == (
            "the groups whose ids begin with a- have 5 members, and 5 are allowed (tenant.max.members)"
        )
        assert (await quotas(outer))["members"] == {"used": 5, "allowed": 5}
        await declare(other, "z-1")
        assert (await join(other, "z-1")).status_code == 201


async def test_should_let_whoever_is_in_go_on_at_every_limit(tmp_path: Path) -> None:
    async with tenants(tmp_path, PRINCIPALS, tenant_max_members=2, tenant_max_groups=1) as service:
        outer = await service.client("outer")
        await declare(outer, "a-1")
        at = "/v1/groups/a-1"
        dynamic = (await join(outer, "a-1")).json()["member_id"]
        static = (await join(outer, "a-1", group_instance_id="one", incarnation=1)).json()["member_id"]
        service.coordinator.quotas.settings = Settings(
            tenant_max_groups=1, tenant_max_members=2, tenant_max_bytes=1, tenant_max_computations=1
        )

        assert problem(await join(outer, "a-1")) == OVER
        assert problem(await join(outer, "a-1", group_instance_id="two")) == OVER
        assert problem(await declare(outer, "a-1", partitions=5)) == OVER
        assert (await declare(outer, "a-1")).status_code == 200, "it has this definition"
        assert (await join(outer, "a-1", member_id=dynamic)).status_code == 200
        replaced = await join(outer, "a-1", group_instance_id="one", incarnation=2)
        assert replaced.status_code == 201
        assert replaced.json()["member_id"] != static
        beat = await outer.post(f"{at}/members/{dynamic}/heartbeat", json={"generation_id": 0})
        assert beat.status_code == 200
        rejoined = await join(outer, "a-1", member_id=dynamic)
        assert rejoined.status_code == 200
        fetch = {"min_generation": rejoined.json()["generation_id"], "wait_ms": 30_000}
        assert (await outer.get(f"{at}/members/{dynamic}/assignment", params=fetch)).status_code == 200
        assert (await outer.delete(f"{at}/members/{dynamic}")).status_code == 204
        assert (await quotas(outer))["members"] == {"used": 1, "allowed": 2}


async def test_should_refuse_what_is_new_when_its_groups_take_too_much(tmp_path: Path) -> None:
    async with tenants(tmp_path, PRINCIPALS) as service:
        outer = await service.client("outer")
        await declare(outer, "a-1")
        assert (await outer.post("/v1/groups/a-jvm/rebalances", json=reported("a-jvm", 1))).status_code == 201
        used = (await quotas(outer))["bytes"]["used"]
        stored = [(await outer.get(f"/v1/groups/{group}")).json()["stored_bytes"] for group in ("a-1", "a-jvm")]
        service.coordinator.quotas.settings = Settings(tenant_max_bytes=used)

        assert used == sum(stored)
        assert min(stored) > 0
        for refused in (
            await declare(outer, "a-1", partitions=5),
            await declare(outer, "a-2"),
            await join(outer, "a-1"),
            await outer.post("/v1/groups/a-jvm/rebalances", json=reported("a-jvm", 2)),
            await outer.post("/v1/groups/a-new/rebalances", json=reported("a-new", 1)),
        ):
            assert problem(refused) == OVER
            assert refused.json()["detail"] == (
                f"the groups whose ids begin with a- take {used} bytes in the store, and {used} are allowed "
                "(tenant.max.bytes)"
            )
        assert (await outer.post("/v1/groups/a-jvm/rebalances", json=reported("a-jvm", 1))).status_code == 200
        assert (await quotas(outer))["groups"]["used"] == 2, "a group that was refused does not count"


async def test_should_keep_the_quotas_of_the_callers_prefix_and_of_those_around_it(tmp_path: Path) -> None:
    """Else who may create tokens for parts of its prefix had no quota at all."""
    async with tenants(tmp_path, PRINCIPALS, tenant_max_groups=2) as service:
        outer, inner, everywhere = [await service.client(name) for name in ("outer", "inner", "all")]
        assert (await declare(outer, "a-1")).status_code == 201
        assert (await declare(inner, "a-b-1")).status_code == 201
        assert problem(await declare(outer, "a-2")) == OVER, "the inner group is one of the outer's, too"
        refused = await declare(inner, "a-b-2")
        assert problem(refused) == OVER
        assert refused.json()["detail"] == (
            "the groups whose ids begin with a- have all that they may have, and 2 are allowed (tenant.max.groups)"
        ), "how many others have is not told"
        assert (await declare(everywhere, "a-b-2")).status_code == 201, "who sees all groups has no quota"
        assert problem(await declare(inner, "a-b-3")) == OVER

        assert (await quotas(outer))["groups"] == {"used": 3, "allowed": 2}
        assert (await quotas(inner))["groups"] == {"used": 2, "allowed": 2}
        assert await quotas(everywhere) is None


async def test_should_bound_the_computations_of_a_tenant_and_of_no_other(tmp_path: Path) -> None:
    async with tenants(tmp_path, PRINCIPALS, tenant_max_computations=1) as service:
        outer, other = await service.client("outer"), await service.client("other")
        with service.coordinator.quotas.computation("a-"):
            refused = await outer.post("/v1/assign", json=reported("a-1", 1))
            assert (await other.post("/v1/assign", json=reported("z-1", 1))).status_code == 200
        allowed = await outer.post("/v1/assign", json=reported("a-1", 1))

        assert problem(refused) == (429, "THROTTLING_QUOTA_EXCEEDED")
        assert int(refused.headers["retry-after"]) >= 1
        assert "tenant.max.computations" in refused.json()["detail"]
        assert allowed.status_code == 200
        assert (await quotas(outer))["computations"] == {"used": 0, "allowed": 1}


async def test_should_count_the_same_after_a_restart(tmp_path: Path) -> None:
    async with tenants(tmp_path, PRINCIPALS) as service:
        outer = await service.client("outer")
        await declare(outer, "a-1")
        await asyncio.gather(*(join(outer, "a-1") for _ in range(3)))
        before = await settled(service, outer)
    async with tenants(tmp_path, PRINCIPALS) as service:
        after = await quotas(await service.client("outer"))

    assert after == before
    assert after["groups"]["used"] == 1
    assert after["members"]["used"] == 3


async def settled(service: Tenants, client: httpx.AsyncClient) -> Any:
    """What is used when no rebalance is to be recorded any more."""
    runtime = service.coordinator.group("a-1")
    while runtime.image.state != "Stable":  # noqa: ASYNC110 (nobody tells)
        await asyncio.sleep(0.01)
    return await quotas(client)


append = Repository.append


@pytest.mark.parametrize("error, counts", [(StoreError("who knows"), 1), (StoreBusy("nothing was written"), 0)])
async def test_should_go_on_counting_a_group_that_may_have_been_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: StoreError, counts: int
) -> None:
    async def failing(
        self: Repository, group_id: str, expected: int, records: Sequence[str], *recorded: Any, **owned: Any
    ) -> Written:
        if counts:
            await append(self, group_id, expected, records, *recorded, **owned)
        raise error

    async with tenants(tmp_path, PRINCIPALS, tenant_max_groups=1) as service:
        outer = await service.client("outer")
        with monkeypatch.context() as patched:
            patched.setattr(Repository, "append", failing)
            assert problem(await declare(outer, "a-1")) == (503, "KAFKA_STORAGE_ERROR")

        assert (await quotas(outer))["groups"]["used"] == counts
        assert (await declare(outer, "a-2")).status_code == (429 if counts else 201)
        assert (await declare(outer, "a-1")).status_code == (200 if counts else 429)


async def test_should_free_a_place_once_the_leave_is_committed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with tenants(tmp_path, PRINCIPALS, tenant_max_members=1) as service:
        outer = await service.client("outer")
        for group_id in ("a-1", "a-2"):
            await declare(outer, group_id)
        member = (await join(outer, "a-1")).json()["member_id"]
        begun, may_end = asyncio.Event(), asyncio.Event()

        async def failing_late(
            self: Repository, group_id: str, expected: int, records: Sequence[str], *recorded: Any, **owned: Any
        ) -> Written:
            if group_id != "a-1":
                return await append(self, group_id, expected, records, *recorded, **owned)
            begun.set()
            await may_end.wait()
            raise StoreError("the leave was not written")

        with monkeypatch.context() as patched:
            patched.setattr(Repository, "append", failing_late)
            leaving = asyncio.ensure_future(outer.delete(f"/v1/groups/a-1/members/{member}"))
            await begun.wait()
            assert problem(await join(outer, "a-2")) == OVER
            may_end.set()
            assert (await leaving).status_code == 503
        assert problem(await join(outer, "a-2")) == OVER
        assert (await outer.delete(f"/v1/groups/a-1/members/{member}")).status_code == 204
        assert (await join(outer, "a-2")).status_code == 201


_GROUPS = st.sampled_from(["a-1", "a-b-1", "a-b-2", "b-1"])
_TENANTS = ("a-", "a-b-", "b-", "c-")


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("take"), _GROUPS, st.just(0)),
            st.tuples(st.just("give back"), _GROUPS, st.just(0)),
            st.tuples(st.just("note"), _GROUPS, st.integers(0, 9)),
            st.tuples(st.just("ask"), st.sampled_from(_TENANTS), st.just(0)),
        )
    )
)
def test_should_count_as_a_scan_of_all_groups_would(steps: list[tuple[str, str, int]]) -> None:
    counted = Quotas()
    groups: dict[str, bool] = {}
    members: dict[str, int] = {}
    for what, name, number in steps:
        if what == "take":
            assert counted.count_group(name) is not groups.get(name, False)
            groups[name] = True
        elif what == "give back":
            counted.give_back(name)
            groups[name], members[name] = False, 0
        elif what == "note":
            counted.note(name, number, 10 * number)
            members[name] = number
        else:
            counted.shown(name)

    for tenant in _TENANTS:
        expected = sum(number for name, number in members.items() if name.startswith(tenant))
        shown: Any = counted.shown(tenant)
        used = [shown[what]["used"] for what in ("members", "bytes", "groups")]
        there = sum(known for name, known in groups.items() if name.startswith(tenant))
        assert used == [expected, 10 * expected, there]
