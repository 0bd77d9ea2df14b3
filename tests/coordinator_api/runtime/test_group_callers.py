"""What the callers of a group show: refused calls, and the releases that members run."""

from coordinator_api.group.health import RefusedCalls
from coordinator_api.runtime.group_callers import GroupCallers

CLOCK = iter(range(1_000, 100_000))


def callers() -> GroupCallers:
    return GroupCallers(CLOCK.__next__)


def test_should_count_refused_calls_and_keep_the_newest() -> None:
    seen = callers()
    seen.token_refused("a", "it expired")
    seen.token_refused("b", "it expired, too")
    refused = seen.refused_tokens
    assert refused is not None
    assert refused == RefusedCalls("b", "it expired, too", 2, refused.since_ms, refused.since_ms + 1)
    assert seen.refused_definitions is None


def test_should_know_mixed_releases_until_the_members_run_one_release() -> None:
    seen, members = callers(), {"a", "b", "c"}
    for member_id, agent in (("a", "assignor/1.0 (x)"), ("b", "curl/8"), ("c", "assignor/1.0")):
        seen.joined(member_id, agent, members)
    assert (seen.releases(members), seen.mixed_since_ms) == ({}, None)
    seen.joined("b", "assignor/1.1.dev2+local (x)", members)
    assert seen.releases(members) == {"a": "1.0", "b": "1.1.dev2+local", "c": "1.0"}
    assert seen.mixed_since_ms is not None
    assert seen.releases({"b"}) == {}
    assert seen.mixed_since_ms is None


def test_should_forget_members_that_are_gone() -> None:
    seen = callers()
    for number in range(100):
        seen.joined(str(number), "assignor/1.0", {str(number)})
    seen.joined("new", "assignor/1.1", {"new", "99"})
    assert seen.releases({"new", "99"}) == {"new": "1.1", "99": "1.0"}
