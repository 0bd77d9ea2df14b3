"""Heartbeats of members that go where the project's own clients go (`coordinator_client.addresses`)."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.forwarding.prototype import WITH
from benchmarks.group_load.http_calls import Connections, request
from benchmarks.processor_time import processor_s
from benchmarks.steady_calls import Driven, drive
from coordinator_client.addresses import CallRoute, CoordinatorAddresses, CoordinatorCall

_LONGEST_CALL_S = 30.0


@dataclass(frozen=True, slots=True)
class Callers:
    """`url`: the only address that they are told. `remember`: where the last call was answered, as clients do; else
    each call is a first one. `passed_on_with`: by the prototype.
    """

    url: str
    group: str
    member_ids: tuple[str, ...]
    generation_id: int
    remember: bool = True
    passed_on_with: bytes = b""


@dataclass(frozen=True, slots=True)
class Beaten:
    """`processor_s`: what each of the processes that were looked at has used meanwhile, with all below it."""

    driven: Driven
    processor_s: tuple[float, ...]


async def heartbeats(callers: Callers, count: int, rate: float, processes: tuple[int, ...]) -> Beaten:
    """So many a second in all, the members in turn, each over connections of its own that it keeps."""
    members = [_Member(callers, member_id) for member_id in callers.member_ids]

    async def beat(number: int) -> int:
        return await members[number % len(members)].beat()

    try:
        await drive(beat, len(members), len(members), rate)  # everybody is connected
        before = [processor_s(pid) for pid in processes]
        driven = await drive(beat, count, len(members), rate)
        used = (processor_s(pid) - earlier for pid, earlier in zip(processes, before, strict=True))
        return Beaten(driven, tuple(used))
    finally:
        for member in members:
            member.close()


class _Member:
    def __init__(self, callers: Callers, member_id: str) -> None:
        self._callers = callers
        self._addresses = CoordinatorAddresses([callers.url])
        self._call = CoordinatorCall(f"/v1/groups/{callers.group}/members/{member_id}/heartbeat", _LONGEST_CALL_S)
        sent = request("POST", self._call.path, b'{"generation_id":%d}' % callers.generation_id)
        if callers.passed_on_with:
            sent = sent.replace(b"\r\n", b"\r\n%b: %b\r\n" % (WITH, callers.passed_on_with), 1)
        self._request = sent
        self._connections: dict[str, Connections] = {}

    async def beat(self) -> int:
        """The status of the last answer."""
        addresses = self._addresses if self._callers.remember else CoordinatorAddresses([self._callers.url])
        route = CallRoute(addresses, self._call)
        status = 0
        while (attempt := route.next(_LONGEST_CALL_S)) is not None:
            answer = await self._to(attempt.address).call(self._request)
            status = answer.status
            if route.answered(attempt, status, answer.header("location")):
                break
        return status

    def close(self) -> None:
        for connections in self._connections.values():
            connections.close()

    def _to(self, address: str) -> Connections:
        found = self._connections.get(address)
        if found is None:
            found = self._connections[address] = Connections(address)
        return found
