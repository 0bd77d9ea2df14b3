"""The members of a group: a changed copy has the change, and every earlier version stays as it was."""

from dataclasses import replace
from functools import partial

from hypothesis import given
from hypothesis import strategies as st

from coordinator_api.group.events import LastJoin
from coordinator_api.group.image import ClassicGroupMember, ClassicGroupMembers, LastAssignment

IDS = [f"m{number}" for number in range(6)]

Model = dict[str, ClassicGroupMember]


@st.composite
def members(draw: st.DrawFn) -> ClassicGroupMember:
    """No two members have a name in common: each name begins with the member's id."""
    member_id = draw(st.sampled_from(IDS))
    join = LastJoin(
        group_instance_id=draw(st.sampled_from([None, f"{member_id} instance", f"{member_id} other instance"])),
        incarnation=None,
        client_id=None,
        session_timeout_ms=1,
        rebalance_timeout_ms=1,
        subscription=b"",
        generation_id=draw(st.integers(1, 3)),
        join_id=draw(st.sampled_from([None, f"{member_id} join", f"{member_id} other join"])),
    )
    fenced = draw(st.lists(st.sampled_from([f"{member_id} before", f"{member_id} long before"]), unique=True))
    return ClassicGroupMember(
        member_id, join, fenced_member_ids=tuple(fenced), away_until_ms=draw(st.sampled_from([None, 9]))
    )


def check(version: ClassicGroupMembers, model: Model) -> None:
    assert list(version.items()) == list(model.items())
    names = {name: each for each in model.values() for name in each.fenced_member_ids}
    for member_id in IDS:
        for name in (f"{member_id} before", f"{member_id} long before"):
            assert version.has_fenced(name) == (name in names)
        for word in ("instance", "other instance"):
            static = [each for each in model.values() if each.last_join.group_instance_id == f"{member_id} {word}"]
            assert version.with_instance(f"{member_id} {word}") == (static[0] if static else None)
        for word in ("join", "other join"):
            joined = [each for each in model.values() if each.last_join.join_id == f"{member_id} {word}"]
            assert version.with_join_id(f"{member_id} {word}") == (joined[0] if joined else None)
    assert [each.member_id for each in version.away()] == sorted(key for key, each in model.items() if each.is_away)
    for generation_id in range(4):
        later = [each for each in model.values() if each.last_join.generation_id > generation_id]
        assert version.count_joined_after(generation_id) == len(later)


@given(st.lists(st.one_of(members(), st.sampled_from(IDS), st.integers(1, 9)), max_size=25))
def test_should_find_members_by_each_name_in_every_version(changes: list[ClassicGroupMember | str | int]) -> None:
    """A member is added or replaced, an id is removed, and for a number all get the assignment of that generation."""
    versions: list[tuple[ClassicGroupMembers, Model]] = [(ClassicGroupMembers(), {})]
    for change in changes:
        version, model = versions[-1]
        if isinstance(change, ClassicGroupMember):
            versions.append((version.with_member(change), {**model, change.member_id: change}))
        elif isinstance(change, int):
            given_out = partial(replace, last_assignment=LastAssignment(change))
            versions.append((version.assigned(given_out), {key: given_out(each) for key, each in model.items()}))
        elif change in model:
            versions.append((version.without(change), {key: each for key, each in model.items() if key != change}))
    for version, model in versions:
        check(version, model)
