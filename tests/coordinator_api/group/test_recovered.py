"""What becomes of a group whose newest records are lost, for each shape of a log that the last version wrote."""

import gzip
import sqlite3
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import cache

import pytest

from assignor.errors import InputError
from assignor.types import JAVA_INT_MAX, TaskId
from coordinator_api.group.events import Heartbeat, Tick
from coordinator_api.group.group import Group
from coordinator_api.group.group_levers import Lever, LeverName, Levers, OperatorDecision
from coordinator_api.group.liveness import GroupLimits
from coordinator_api.group.outcome import Rejected
from coordinator_api.group.record_codec import decode_record, encode_record
from coordinator_api.group.records import (
    CoordinatorRecord,
    DefinitionChanged,
    GroupRestored,
    LeverChanged,
    WarmUpsPromoted,
)
from coordinator_api.group.snapshot import LOST_GENERATIONS, LogDoesNotReplay, log_after_a_loss
from coordinator_api.group.states import GroupState, RejectionCode
from tests.coordinator_api.store.test_stored_database import DATABASE, EXPECTED

NOW_MS = 1
LED_HERE = sorted(name for name, group in EXPECTED["groups"].items() if group["led_by"] is None)


@cache
def logs() -> Mapping[str, Sequence[str]]:
    found: dict[str, list[str]] = defaultdict(list)
    database = sqlite3.connect(":memory:")
    database.deserialize(gzip.decompress(DATABASE.read_bytes()).replace(b"\x02\x02", b"\x01\x01", 1))  # not in WAL mode
    for group_id, body in database.execute("SELECT group_id, body FROM group_records ORDER BY group_id, sequence"):
        found[group_id].append(body)
    database.close()
    return found


def replayed(group_id: str, log: Sequence[str]) -> Group:
    return Group.replay(group_id, GroupLimits(), map(decode_record, log), NOW_MS)


@pytest.mark.parametrize("group_id", LED_HERE)
def test_should_know_no_member_and_give_out_no_generation_again(group_id: str) -> None:
    before = replayed(group_id, logs()[group_id])

    after = replayed(group_id, log_after_a_loss(logs()[group_id]))

    after.validate_state()
    assert (after.image.state, len(after.image.members)) == (GroupState.EMPTY, 0)
    assert after.image.generation_id == before.image.generation_id + LOST_GENERATIONS
    for name in ("input_json", "revision", "origin", "draining", "last_rebalance"):
        assert getattr(after.image, name) == getattr(before.image, name)
    for member_id in before.image.members:
        for generation_id in (
            before.image.generation_id,
            before.image.generation_id + 7,
            after.image.generation_id + 1,
        ):
            refused = after.respond(Heartbeat(member_id, generation_id), NOW_MS, after.image).response
            assert isinstance(refused, Rejected)
            assert refused.code in (RejectionCode.UNKNOWN_MEMBER_ID, RejectionCode.FENCED_INSTANCE_ID)
    assert after.handle(Tick(), NOW_MS).records == (), "it waits for its members"


def test_should_end_the_drains_of_instances_because_nobody_is_left_of_them() -> None:
    pause = Lever(LeverName.PAUSE, OperatorDecision("ann", 6))
    drain = Lever(LeverName.DRAIN, OperatorDecision("ann", 5), process_id="00000000-0000-0000-0000-000000000001")
    levers: list[CoordinatorRecord] = [
        DefinitionChanged(1, "{}"),
        LeverChanged(pause, is_on=True),
        LeverChanged(drain, is_on=True),
        WarmUpsPromoted({"a": (TaskId(0, 1),)}),
    ]

    after = replayed("g", log_after_a_loss([encode_record(record) for record in levers]))

    assert (after.image.levers, after.image.promoted) == (Levers(pause=pause), {})


@pytest.mark.parametrize("group_id", sorted(EXPECTED["groups"].keys() - set(LED_HERE)))
def test_should_leave_a_group_as_it_is_whose_leader_counts_its_generations(group_id: str) -> None:
    assert log_after_a_loss(logs()[group_id]) == tuple(logs()[group_id])


def test_should_say_when_a_log_does_not_replay_or_no_generation_is_left() -> None:
    last = encode_record(GroupRestored(GroupState.EMPTY, JAVA_INT_MAX - LOST_GENERATIONS, False, None, 0))
    assert replayed("g", log_after_a_loss([last])).image.generation_id == JAVA_INT_MAX

    one_more = encode_record(GroupRestored(GroupState.EMPTY, JAVA_INT_MAX - LOST_GENERATIONS + 1, False, None, 0))
    with pytest.raises(InputError, match=r"generation 2146483648 cannot be raised"):
        log_after_a_loss([one_more])
    for log in (
        ["{}"],
        [*logs()["stable"], logs()["stable"][0]],
        ['{"type":"MemberRemoved","member_id":"x","reason":"left"}'],
    ):
        with pytest.raises(LogDoesNotReplay):
            log_after_a_loss(log)
