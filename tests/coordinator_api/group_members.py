"""Groups and members for tests: a small definition, and a member that speaks the HTTP contract."""

import base64
import json
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx

from assignor.protocol.assignment_info import AssignmentInfo, decode_assignment_info
from assignor.protocol.consumer_protocol import Subscription, decode_assignment, encode_subscription
from assignor.protocol.subscription_info import SubscriptionInfo, encode_subscription_info
from assignor.types import ProcessId, TaskId, TopicPartition

TOPIC = "events"
CHANGELOG = "app-counts-changelog"
PROBING_INTERVAL_MS = 60_000
"""Of the definition."""
DEFINITION = Path(__file__).with_name("definition.json")


def definition(partitions: int = 4, **changes: object) -> dict[str, Any]:
    """One stateful subtopology over one topic; its changelog exists and is 1,000 records long in every partition."""
    document: dict[str, Any] = json.loads(DEFINITION.read_text(encoding="utf-8"))
    document["cluster"]["topics"][TOPIC]["partitions"] = partitions
    document["existing_internal_topics"][CHANGELOG]["partitions"] = partitions
    document["changelog_end_offsets"][CHANGELOG] = [1_000] * partitions
    return {**document, **changes}


def subscription(
    process_id: str,
    offset_sums: Mapping[str, int] | None = None,
    owned: tuple[int, ...] = (),
    generation_id: int | None = None,
    endpoint: str | None = None,
    topic: str = TOPIC,
) -> bytes:
    """`offset_sums`: task to sum, `owned`: partitions of the topic, `endpoint`: where the instance can be asked."""
    info = SubscriptionInfo(
        version=11,
        process_id=ProcessId.parse(process_id),
        user_end_point=endpoint,
        task_offset_sums={TaskId.parse(task): offset for task, offset in (offset_sums or {}).items()},
    )
    return encode_subscription(
        Subscription(
            topics=(topic,),
            user_data=encode_subscription_info(info),
            owned_partitions=tuple(TopicPartition(topic, partition) for partition in owned),
            generation_id=generation_id,
        )
    )


class HttpMember:
    """One member with one process id. Its calls return the response as it is, and remember what it was told."""

    def __init__(self, client: httpx.Client, group_id: str, topic: str = TOPIC, **join: object) -> None:
        """`topic`: what it reads; `join`: fields of the subscription's body that differ from the usual."""
        self.client = client
        self.topic = topic
        self.path = f"/v1/groups/{group_id}"
        self.process_id = str(uuid.uuid4())
        self.member_id: str | None = None
        self.generation_id = 0
        self.awaited = 0
        self.active: tuple[str, ...] = ()
        self.standby: tuple[str, ...] = ()
        self.followup = False
        self._join = join

    def subscribe(self, offset_sums: Mapping[str, int] | None = None, **changes: object) -> httpx.Response:
        """Join or rejoin with what it holds: running active tasks count as LATEST_OFFSET."""
        sums = {**dict.fromkeys(self.active, -2), **(offset_sums or {})}
        owned = tuple(int(task.partition("_")[2]) for task in self.active)
        raw = subscription(self.process_id, sums, owned, self.generation_id or None, topic=self.topic)
        body = {
            "session_timeout_ms": 30_000,
            "rebalance_timeout_ms": 30_000,
            "subscription": base64.b64encode(raw).decode(),
            **({"member_id": self.member_id} if self.member_id else {}),
            **self._join,
            **changes,
        }
        response = self.client.post(
            f"{self.path}/subscriptions", content=json.dumps(body), headers={"Content-Type": "application/json"}
        )
        if response.is_success:
            self.member_id = response.json()["member_id"]
            self.awaited = response.json()["generation_id"]
        return response

    def fetch(self, wait_ms: int = 30_000, min_generation: int | None = None) -> httpx.Response:
        wanted = self.awaited if min_generation is None else min_generation
        response = self.client.get(
            f"{self.path}/members/{self.member_id}/assignment", params={"min_generation": wanted, "wait_ms": wait_ms}
        )
        if response.status_code == 200:
            self.take(response.json())
        return response

    def take(self, answer: Mapping[str, Any]) -> None:
        self.generation_id = answer["generation_id"]
        info = assignment_info(base64.b64decode(answer["assignment"]))
        self.active = tuple(str(task) for task in info.active_tasks)
        self.standby = tuple(str(task) for task in info.standby_tasks)
        self.followup = answer["followup"]

    def heartbeat(self, **changes: object) -> httpx.Response:
        body = {"generation_id": self.generation_id, **changes}
        return self.client.post(f"{self.path}/members/{self.member_id}/heartbeat", json=body)

    def process_heartbeat(self, known: str | None = None, wait_ms: int = 0, **headers: str) -> httpx.Response:
        """As a process sends it whose only member this is. `known`: the news of the answer before."""
        body = {"members": {self.member_id: {"generation_id": self.generation_id}}, "known": known}
        return self.client.post(f"{self.path}/heartbeat", json=body, params={"wait_ms": wait_ms}, headers=headers)

    def hears_of_a_rebalance(self, wait_ms: int = 5_000) -> bool:
        """Whether it has to rejoin, now or within `wait_ms`."""
        known = None
        for wait in (0, wait_ms):
            heard = self.process_heartbeat(known, wait).json()
            if heard["members"][self.member_id]["rejoin"]:
                return True
            known = heard["news"]
        return False

    def leave(self, **body: object) -> httpx.Response:
        return self.client.request("DELETE", f"{self.path}/members/{self.member_id}", json=body or None)


def assignment_info(raw: bytes) -> AssignmentInfo:
    user_data = decode_assignment(raw).user_data
    assert user_data is not None
    return decode_assignment_info(user_data)


def heard(answer: httpx.Response) -> dict[str, Any]:
    assert answer.status_code == 200, answer.text
    told: dict[str, Any] = answer.json()
    return told


def settle(*members: HttpMember) -> None:
    """All of them rejoin as long as they are told to, and fetch, until the group leaves them in peace."""
    for _ in range(20):
        answers = [heard(member.heartbeat()) for member in members]
        if all(
            answer["state"] == "Stable" and not answer["rejoin"] and answer["generation_id"] == member.generation_id
            for answer, member in zip(answers, members, strict=True)
        ):
            # a follow-up that was announced begins by itself, soon after the last member has its assignment
            announced = [member for member in members if member.followup]
            if not announced or not announced[0].hears_of_a_rebalance():
                return
            continue
        # whoever was slow to join may have let the others begin without it, who have to rejoin before anybody waits
        for member, answer in zip(members, answers, strict=True):
            if answer["rejoin"]:
                assert member.subscribe().status_code == 200
        for member in members:
            fetched = member.fetch()
            if fetched.status_code == 409:  # a rebalance has begun since its heartbeat: it has to rejoin first
                assert problem(fetched) == (409, "REBALANCE_IN_PROGRESS")
                break
            assert fetched.status_code == 200, fetched.text
    raise AssertionError("the group did not come to rest in 20 rebalances")


def settled_member(client: httpx.Client, group_id: str | None = None, **join: Any) -> HttpMember:
    """The only member of a group, by default a new one, with all its tasks. `join`: as of `HttpMember`."""
    member = HttpMember(client, group_id or new_group(client), **join)
    assert member.subscribe().status_code == 201
    settle(member)
    return member


def new_group(client: httpx.Client, **changes: object) -> str:
    """A freshly declared group of its own name."""
    group_id = f"group-{uuid.uuid4().hex[:12]}"
    response = client.put(f"/v1/groups/{group_id}", json=definition(**changes))  # type: ignore[arg-type]
    assert response.status_code == 201, response.text
    return group_id


def problem(response: httpx.Response) -> tuple[int, str]:
    """Status and code, after a check that the answer is a problem document of that status."""
    assert response.headers["content-type"] == "application/problem+json", response.text
    document = response.json()
    assert document["status"] == response.status_code
    assert set(document) >= {"type", "title", "status", "code", "detail"}
    return response.status_code, document["code"]
