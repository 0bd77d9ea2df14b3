"""Recorded rebalances are read and unpacked by few at one time, however many ask and however slowly they read."""

import asyncio

from assignor.protocol.shared_assignments import AssignmentParts, SharedAssignments
from coordinator_api.runtime.store_access import AT_ONE_TIME, PIECE_BYTES, Recordings
from coordinator_api.store.recorded_documents import expanded, pack_document
from coordinator_api.store.repository import Repository

MEMBERS = 500
SHARED = bytes(range(256)) * 8


class SlowRepository(Repository):
    """Every read goes on until `go_on` is set. `readers`: how many of them are under way."""

    def __init__(self) -> None:
        self.readers = 0
        self.go_on = asyncio.Event()

    async def rebalance(self, group_id: str, generation_id: int) -> bytes | None:
        self.readers += 1
        await self.go_on.wait()
        self.readers -= 1
        return str(generation_id).encode()


def stored() -> bytes:
    """Some megabytes of JSON, a chunk for each member."""
    parts = {f"m{number}": AssignmentParts(b"head", SHARED, b"tail") for number in range(MEMBERS)}
    return pack_document({"id": "r", "output": {"assignments": {}}}, SharedAssignments(parts))


async def test_should_let_few_read_from_the_store_at_one_time() -> None:
    repository = SlowRepository()
    recordings = Recordings(repository)
    asking = [asyncio.ensure_future(recordings.stored("g", number)) for number in range(20)]
    for _ in range(100):
        await asyncio.sleep(0)
    at_one_time = repository.readers
    repository.go_on.set()

    assert await asyncio.gather(*asking) == [str(number).encode() for number in range(20)]
    assert at_one_time == AT_ONE_TIME


async def test_should_send_the_whole_document_in_few_pieces() -> None:
    packed = stored()
    pieces = [piece async for piece in Recordings(SlowRepository()).pieces(packed)]

    assert b"".join(pieces) == b"".join(expanded(packed))
    assert all(len(piece) >= PIECE_BYTES for piece in pieces[:-1])
    assert len(pieces) < MEMBERS / 10


async def test_should_keep_no_turn_for_a_caller_that_does_not_read_on() -> None:
    recordings = Recordings(SlowRepository())
    packed = stored()
    slow = [recordings.pieces(packed) for _ in range(2 * AT_ONE_TIME)]
    for each in slow:
        assert await anext(each)

    async with asyncio.timeout(60):
        assert [piece async for piece in recordings.pieces(packed)]
