"""Commands that pull the levers of a group, `held`, `approve` and `discard` too, against a running coordinator."""

import json
import re

import httpx
import pytest

from assignor.errors import InputError
from coordinator_api.cli.calls import duration_ms
from tests.coordinator_api.cli.test_commands import assignor, group_of
from tests.coordinator_api.group_members import CHANGELOG, HttpMember, new_group, settle, settled_member
from tests.coordinator_api.held_rebalance import held_rebalance, last_rebalance
from tests.coordinator_api.service_process import ServiceProcess


@pytest.fixture
def member(client: httpx.Client) -> HttpMember:
    """Runs both tasks. Their state is so short that whoever gets one has caught up at once."""
    return settled_member(client, new_group(client, partitions=2, changelog_end_offsets={CHANGELOG: [50, 50]}))


def drained_of(member: HttpMember) -> list[dict[str, object]]:
    drained: list[dict[str, object]] = member.client.get(member.path).json()["levers"]["drained"]
    return drained


def test_should_drain_an_instance_and_end_its_drain(service: ServiceProcess, member: HttpMember) -> None:
    group, where = group_of(member), ("--coordinator", service.url)
    drain = ("groups", "drain", group, *where, "--instance", member.process_id)

    drained = assignor(*drain, "--reason", "Gerät wird getauscht, 更换磁盘")
    described = assignor("groups", "describe", group, *where)[1]
    lever = drained_of(member)
    ended = assignor(*drain, "--end")

    assert (drained[0], drained[2]) == (0, "")
    assert drained[1].splitlines() == [
        f"{group}: {member.process_id} is being drained; do not stop it yet",
        *[f"  {task}: {why}" if task else f"  {why}" for task, why in _missing(lever[0])],
    ]
    assert [(each["process_id"], each["member_id"], each["reason"]) for each in lever] == [
        (member.process_id, None, "Gerät wird getauscht, 更换磁盘")
    ]
    note = f"drained: instance {member.process_id} is to have no tasks; set [0-9]+s ago by .*"
    assert re.search(f"{note}: Gerät wird getauscht, 更换磁盘", " ".join(described.split()))
    assert ended == (0, f"{group}: {member.process_id} may have tasks again\n", "")
    assert drained_of(member) == []


def test_should_say_that_a_reason_is_no_text(service: ServiceProcess) -> None:
    code, _, said = assignor("groups", "pause", "a", "--coordinator", service.url, "--reason", "disk \udcff")
    assert (code, said) == (2, "error: --reason: is not UTF-8\n")


def test_should_say_that_a_member_without_tasks_can_be_stopped(service: ServiceProcess, member: HttpMember) -> None:
    group, where = group_of(member), ("--coordinator", service.url)
    second = HttpMember(member.client, group)
    second.subscribe()
    settle(member, second)
    drain = ("groups", "drain", group, *where, "--member", str(member.member_id))

    begun = assignor(*drain, "--format", "json")
    settle(member, second)
    done = assignor(*drain)
    ended = assignor(*drain, "--end", "--format", "json")

    assert begun[0] == 0, begun
    answered = json.loads(begun[1])
    assert (answered["member_id"], answered["process_id"], answered["safe_to_stop"]) == (
        member.member_id,
        member.process_id,
        False,
    )
    assert (member.active, second.active) == ((), ("0_0", "0_1"))
    assert done == (0, f"{group}: {member.member_id} has no active tasks, and can be stopped\n", "")
    assert ended == (0, f'{{"group_id":"{group}","drained":"{member.member_id}","ended":true}}\n', "")


def test_should_refuse_to_drain_what_is_not_named_well(service: ServiceProcess, member: HttpMember) -> None:
    where = ("groups", "drain", group_of(member), "--coordinator", service.url)

    both = assignor(*where, "--instance", member.process_id, "--member", str(member.member_id))
    nothing = assignor(*where, "--end")
    short = assignor(*where, "--instance", member.process_id[:8])

    named = "error: --instance, --member: name what is drained: one instance or one member\n"
    assert (both, nothing) == ((2, "", named), (2, "", named))
    shown = f"as `assignor groups describe {group_of(member)} -o wide` shows them, not '{member.process_id[:8]}'"
    assert short == (2, "", f"error: --instance: must be a whole process id, {shown}\n")
    assert drained_of(member) == []


LEVERS = (
    ("pause", "paused: members process no records", "resume", {"paused": False}),
    (
        *("grace 60s", "rejoin grace: tasks of members that leave wait 1 min for them"),
        *("grace --off", {"rejoin_grace_ms": None}),
    ),
    (
        *("hold --time-limit 30m", "hold: rebalances that move tasks wait 30 min for approval"),
        *("hold --off", {"hold": None}),
    ),
    (
        *("promote", "promotion: a rebalance comes as soon as warm-ups have caught up"),
        *("promote --off", {"promotion": False}),
    ),
)
"""The command, its effect in the description, the command that ends it, and the document of that."""


def test_should_show_a_lever_and_who_pulled_it_until_it_is_ended(service: ServiceProcess, member: HttpMember) -> None:
    """`test_how_to_pages` compares the texts of the commands."""
    group = group_of(member)

    def run(command: str, *more: str) -> tuple[int, str, str]:
        name, *options = command.split()
        return assignor("groups", name, group, *options, *more, "--coordinator", service.url)

    for pulled, shown, ended, document in LEVERS:
        code, _, said = run(pulled, "--reason", "a release")
        described = run("describe")[1]
        off = run(ended, "--format", "json")

        assert (code, said) == (0, "")
        told = rf"{shown}; set [0-9]+s ago by \S.* at 127\.0\.0\.1: a release"
        assert re.search(told, " ".join(described.split()))
        assert described.startswith(f"{group}: {'paused' if pulled == 'pause' else 'Stable'}, generation 1")
        assert (off[0], json.loads(off[1])) == (0, {"group_id": group, **document})
        assert "a release" not in run("describe")[1]


@pytest.mark.parametrize(
    "text, expected",
    [("500ms", 500), ("60s", 60_000), ("10m", 600_000), ("1h30m", 5_400_000), ("2h", 7_200_000), ("1m30s", 90_000)],
)
def test_should_read_a_duration(text: str, expected: int) -> None:
    assert duration_ms(text, "DURATION") == expected


@pytest.mark.parametrize("text", ["", "60", "s", "1s1m", "-5s", "1.5s", " 5s", "5s ", "1d", "9999999s"])
def test_should_refuse_what_is_no_duration(text: str) -> None:
    with pytest.raises(InputError, match="such as 60s, 10m or 1h30m"):
        duration_ms(text, "DURATION")


def _missing(lever: dict[str, object]) -> list[tuple[str | None, str]]:
    missing = lever["missing"]
    assert isinstance(missing, list)
    return [(each["task"], each["why"]) for each in missing]


def where_of(member: HttpMember, service: ServiceProcess) -> tuple[str, ...]:
    return group_of(member), "--coordinator", service.url


def test_should_show_what_waits_and_approve_it(service: ServiceProcess, client: httpx.Client) -> None:
    first, _ = held_rebalance(client)
    where = where_of(first, service)

    _, described, _ = assignor("groups", "describe", *where)
    _, shown, _ = assignor("groups", "held", *where)
    approved = assignor("groups", "approve", *where, "--generation", "2", "--reason", "agreed")

    moves = r"2 tasks would move: 0_\d, 0_\d"
    waits = rf"a rebalance \(generation 2\) waits for approval for (?:1 h|\d+ min(?: \d+ s)?) more: {moves}"
    assert re.search(f"held: {waits}; it waits since [0-9]+s ago", " ".join(described.split()))
    assert re.search(waits, shown)
    assert re.search(rf"^0_\d +{first.process_id[:8]} -> [0-9a-f]{{8}}", shown, re.MULTILINE)
    assert "If approved now: The group is stable after" in " ".join(shown.split())
    assert approved == (0, f"{where[0]}: the rebalance of generation 2 is carried out\n", "")


def test_should_discard_what_waits_with_a_reason_only(service: ServiceProcess, client: httpx.Client) -> None:
    first, _ = held_rebalance(client)
    where = where_of(first, service)

    unexplained = assignor("groups", "discard", *where)
    discarded = assignor("groups", "discard", *where, "--reason", "not now", "--format", "json")

    assert unexplained == (2, "", "error: --reason: say why, for those who find it in the history\n")
    assert discarded == (0, f'{{"group_id":"{where[0]}","discarded":2}}\n', "")
    hold = last_rebalance(first)["hold"]
    assert isinstance(hold, dict)
    assert (hold["ended"], hold["reason"]) == ("discarded", "not now")


def test_should_say_that_nothing_waits(service: ServiceProcess, client: httpx.Client) -> None:
    where = (new_group(client), "--coordinator", service.url)

    assert assignor("groups", "held", *where) == (0, f"{where[0]}: rebalances do not wait for approval\n", "")
    refused = assignor("groups", "approve", *where)
    assert (refused[0], refused[1]) == (1, "")
    assert refused[2].startswith("error: ILLEGAL_GENERATION: no rebalance waits for approval; the group is ")


def test_should_name_the_option_of_a_wrong_time_limit(service: ServiceProcess, client: httpx.Client) -> None:
    refused = assignor("groups", "hold", new_group(client), "--time-limit", "soon", "--coordinator", service.url)

    assert refused == (2, "", "error: --time-limit: must be a duration such as 60s, 10m or 1h30m, not 'soon'\n")
