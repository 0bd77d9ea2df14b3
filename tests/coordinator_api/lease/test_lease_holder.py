"""What a coordinator does after each of its polls: the scripts of `lease_holder.txt`."""

import re
from collections.abc import Iterable
from math import inf
from pathlib import Path

import pytest

from coordinator_api.lease import decisions
from coordinator_api.lease.lease_holder import Expiry, LeaseHolder, ObservedLeases
from coordinator_api.store.lease_rows import LeaseTimes, lease_times
from tests.coordinator_api.lease.table import view

TIMES = LeaseTimes(renewal_ms=250, valid_ms=2_000)
SCRIPTS = re.split(r"\nscript ", Path(__file__).with_name("lease_holder.txt").read_text(encoding="utf-8"))[1:]


class Player:
    """Carries out the commands of a script, which have the names of its methods, and answers in the words of one."""

    def __init__(self) -> None:
        self.holder = LeaseHolder(TIMES)
        self.enter("a", "0")

    def enter(self, coordinator_id: str, now_ms: str) -> None:
        self.holder.entered(coordinator_id, "http://a", int(now_ms))

    def id(self) -> str:
        return self.holder.coordinator_id or "none"

    def poll(self, times: str, *rows: str) -> str:
        sent_ms, now_ms = map(int, times.split("-"))
        if rows == ("gone",):
            return _words(self.holder.polled(sent_ms, now_ms, None))
        coordinators = {row[0]: int(row[1]) for row in re.findall(r"(\S+)=(\d+)", " ".join(rows))}
        groups = re.findall(r"(\S+)@(\S+)/(\d+)", " ".join(rows))
        seen = view(coordinators, *((each, None if of == "-" else of, int(epoch)) for each, of, epoch in groups))
        movable = [row[1:-1] for row in rows if row.startswith("[")]
        return _words(self.holder.polled(sent_ms, now_ms, seen, movable))

    def failed(self) -> None:
        self.holder.poll_failed()

    def own(self, group_id: str, epoch: str) -> None:
        self.holder.own(group_id, int(epoch))

    def given(self, group_id: str, epoch: str, to: str) -> None:
        self.holder.given(decisions.HandOver(group_id, int(epoch), to))

    def deleted(self, group_id: str) -> None:
        self.holder.deleted(group_id)

    def leave(self) -> str:
        return _words(self.holder.leaving())

    def where(self, group_id: str) -> str:
        match self.holder.whereabouts(group_id):
            case decisions.Here(epoch):
                return f"here {epoch}"
            case decisions.Elsewhere(url):
                return url
            case decisions.Free():
                return "free"
            case decisions.NoSuchGroup():
                return "no such group"

    def next(self, now_ms: str) -> str:
        return f"{self.holder.next_poll_ms(float(now_ms)):.10g}"

    def answers(self, now_ms: str) -> str:
        return "yes" if self.holder.may_answer(int(now_ms)) else "no"

    def renews(self) -> str:
        return "yes" if self.holder.renews else "no"


def _words(actions: Iterable[decisions.Action]) -> str:
    return ", ".join(map(_word, actions)) or "nothing"


def _word(action: decisions.Action) -> str:
    match action:
        case decisions.EndCoordinator(coordinator_id, renewals):
            return f"end {coordinator_id}={renewals}"
        case decisions.Take(group_id, owner, epoch):
            return f"take {group_id}@{owner or '-'}/{epoch}"
        case decisions.HandOver(group_id, epoch, to):
            return f"hand over {group_id}/{epoch} to {to}"
        case decisions.Lose(group_id):
            return f"lose {group_id}"
        case decisions.ReadAgain():
            return "read again"


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.partition("\n")[0].replace(" ", "-"))
def test_should_do_what_the_script_says(script: str) -> None:
    player = Player()
    for line in script.splitlines()[1:]:
        if line and not line.startswith("#"):
            command, *words = line.partition(": ")[0].split()
            came = getattr(player, command)(*words)
            assert line == (line if came is None else f"{' '.join((command, *words))}: {came}")


def test_should_look_longer_each_time_that_a_renewal_is_in_vain_until_it_goes_well() -> None:
    holder = LeaseHolder(TIMES)
    holder.entered("a", "http://a", 0)
    holder.polled(0, 10, view({"a": 1}))
    now_ms = 0.0

    def looks() -> int:
        """In time, before the row is renewed."""
        nonlocal now_ms
        count = 0
        while not holder.renews:
            now_ms += 10
            holder.polled(now_ms, now_ms + 10, view({"a": 1}))
            count += 1
        return count

    found = []
    for _ in range(4):
        holder.poll_failed()
        found.append(looks())
    assert found == [1, 2, 4, 4]
    for _ in range(8):
        assert holder.renews
        now_ms += 250
        holder.polled(now_ms, now_ms + 10, view({"a": 1}))
    holder.poll_failed()
    assert looks() == 1


# --- until when a coordinator may answer


def test_should_answer_until_some_time_after_a_renewal_was_sent_however_late_its_answer_came() -> None:
    lease = Expiry(TIMES)
    assert not lease.polled(100, 1_900)
    assert lease.may_answer(2_099)
    assert not lease.may_answer(2_100)


def test_should_give_nothing_back_by_an_answer_that_is_older_than_the_lease_is_long() -> None:
    lease = Expiry(TIMES)
    lease.polled(0, 10)
    assert not lease.polled(2_500, 4_500)
    assert not lease.may_answer(4_500)
    assert lease.polled(4_510, 4_520), "it is back only now"
    assert lease.may_answer(4_520)


def test_should_not_lose_time_by_the_answer_to_an_earlier_renewal() -> None:
    lease = Expiry(TIMES)
    lease.polled(500, 510)
    lease.polled(100, 520)
    assert lease.may_answer(2_499)


def test_should_leave_time_for_others_to_take_over_within_the_lease_timeout() -> None:
    times = lease_times(3_000)
    assert times == LeaseTimes(250, 2_000)


# --- when another coordinator is over


def looked(observation: ObservedLeases, *, renewals: int, from_ms: int, to_ms: int, every_ms: int = 250) -> None:
    for now_ms in range(from_ms, to_ms + 1, every_ms):
        observation.seen(view({"me": now_ms, "other": renewals}), "me", now_ms)


def test_should_begin_anew_with_each_number() -> None:
    observation = ObservedLeases(TIMES)
    looked(observation, renewals=7, from_ms=0, to_ms=2_000)
    looked(observation, renewals=8, from_ms=2_050, to_ms=4_100)
    assert observation.expired() == []
    looked(observation, renewals=8, from_ms=4_200, to_ms=4_200)
    assert observation.expired() == [decisions.EndCoordinator("other", 8)]


def test_should_count_an_outage_as_two_intervals_at_most() -> None:
    observation = ObservedLeases(TIMES)
    looked(observation, renewals=7, from_ms=0, to_ms=1_500)
    looked(observation, renewals=7, from_ms=900_000, to_ms=900_000)
    assert observation.expired() == []
    looked(observation, renewals=7, from_ms=900_100, to_ms=900_100)
    assert observation.expired() == [decisions.EndCoordinator("other", 7)]


def test_should_never_end_itself() -> None:
    observation = ObservedLeases(TIMES)
    for now_ms in range(0, 10_000, 250):
        observation.seen(view({"me": 1}), "me", now_ms)
    assert observation.expired() == []
    assert observation.next_due_ms() == inf


def test_should_look_again_when_the_first_of_the_others_may_be_over() -> None:
    observation = ObservedLeases(TIMES)
    assert observation.next_due_ms() == inf
    observation.seen(view({"me": 0, "other": 7}), "me", 1_000)
    observation.seen(view({"me": 1, "other": 7, "new": 1}), "me", 1_250)
    assert observation.next_due_ms() == 1_000 + 2_100


def test_should_tell_who_has_missed_a_few_renewals() -> None:
    observation = ObservedLeases(TIMES)
    looked(observation, renewals=7, from_ms=0, to_ms=750)
    assert observation.silent() == frozenset()
    looked(observation, renewals=7, from_ms=800, to_ms=800)
    assert observation.silent() == {"other"}
    looked(observation, renewals=8, from_ms=1_000, to_ms=1_000)
    assert observation.silent() == frozenset()
