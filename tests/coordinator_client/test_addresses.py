"""Where a call to one of several coordinators goes, whatever they answer."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator_client import addresses as routes
from tests.known import known

A, B, C = "http://a:1", "http://b:1", "http://c:1"
ELSEWHERE = ("http://x:1", "https://x:1", "http://y:1")
PATH = "/v1/groups/g%2Fh/subscriptions"
CALL = routes.CoordinatorCall(PATH, 10.0)

Says = str | int | None
"""What an address does with a call: a URL to which it sends it on, a status, or None for no answer."""


def carried_out(
    addresses: routes.CoordinatorAddresses, says: Callable[[str], Says], call: routes.CoordinatorCall = CALL
) -> tuple[str | None, list[tuple[str, float]], routes.CallRoute]:
    """Who answered; whom it asked, with how much time each; and the way. Who gives no answer takes all its time."""
    route = routes.CallRoute(addresses, call)
    asked: list[tuple[str, float]] = []
    left_s = call.longest_s
    while (attempt := route.next(left_s)) is not None:
        asked.append((attempt.address, attempt.timeout_s))
        answer = says(attempt.address)
        if answer is None:
            left_s -= attempt.timeout_s
            route.unanswered(attempt, "silent")
        elif isinstance(answer, str):
            assert not route.answered(attempt, 307, f"{answer}{attempt.target}")
        elif route.answered(attempt, answer, None):
            return attempt.address, asked, route
    return None, asked, route


def addresses_asked(asked: list[tuple[str, float]]) -> list[str]:
    return [address for address, _ in asked]


def test_should_give_each_address_its_share_of_the_time() -> None:
    answered, asked, _ = carried_out(routes.CoordinatorAddresses((A, B)), lambda _: None)
    assert (answered, asked) == (None, [(A, 5.0), (B, 5.0)])
    assert carried_out(routes.CoordinatorAddresses((A,)), lambda _: None)[1] == [(A, 10.0)]


def test_should_leave_time_for_the_others_when_the_first_one_has_failed_at_once() -> None:
    says: dict[str, Says] = {A: 503, B: None, C: 200}
    answered, asked, _ = carried_out(routes.CoordinatorAddresses((A, B, C)), says.__getitem__)
    assert (answered, addresses_asked(asked)) == (C, [A, B, C])
    assert asked[1][1] == pytest.approx(10 / 3)


@pytest.mark.parametrize("status", [200, 201, 400, 401, 404, 409, 429, 500])
def test_should_take_a_refusal_for_an_answer(status: int) -> None:
    assert addresses_asked(carried_out(routes.CoordinatorAddresses((A, B)), lambda _: status)[1]) == [A]


def test_should_go_where_a_redirect_leads_and_begin_there_afterwards() -> None:
    addresses = routes.CoordinatorAddresses((A, B))
    says: dict[str, Says] = {A: "https://x:1/coordinators", "https://x:1/coordinators": 200, B: 200}
    answered, asked, _ = carried_out(addresses, says.__getitem__)
    assert answered == "https://x:1/coordinators"
    assert addresses_asked(asked) == [A, "https://x:1/coordinators"]
    assert addresses_asked(carried_out(addresses, says.__getitem__)[1]) == ["https://x:1/coordinators"]
    assert addresses.current("another group") == A, "each group has its own coordinator"


def test_should_go_back_to_who_sent_the_call_on_when_the_owner_has_failed() -> None:
    addresses = routes.CoordinatorAddresses((A, B, C))
    addresses.moved(CALL.group, "http://x:1")
    says: dict[str, Says] = {"http://x:1": None, A: None, B: "http://x:1", C: "http://x:1"}
    answered, asked, route = carried_out(addresses, says.__getitem__)
    assert answered is None
    assert addresses_asked(asked) == ["http://x:1", A, B, C], "nobody is asked twice who has failed"
    assert route.outcomes == {
        "http://x:1": "silent",
        A: "silent",
        B: "sends the call on to http://x:1, which has failed",
        C: "sends the call on to http://x:1, which has failed",
    }
    assert addresses.current(CALL.group) == B


def test_should_end_when_coordinators_send_a_call_round_in_a_circle() -> None:
    says: dict[str, Says] = {A: B, B: A}
    answered, asked, route = carried_out(routes.CoordinatorAddresses((A, B)), says.__getitem__)
    assert (answered, addresses_asked(asked)) == (None, [A, B, A, B])
    assert route.outcomes[B] == f"sends the call on to {A}, after 3 others did so"


@pytest.mark.parametrize(
    ("here", "location", "why"),
    [
        (A, None, "to another path"),
        (A, "", "to another path"),
        (A, f"{B}/v1/groups/other/subscriptions", "to another path"),
        (A, f"{B}{PATH}?replace=true", "to another path"),
        (A, PATH, "to what is no address of a coordinator"),
        (A, f"http://ann:secret@b:1{PATH}", "to what is no address of a coordinator"),
        (A, f"http://b:1/?token=secret&x={PATH}", "to what is no address of a coordinator"),
        (A, f"http://b:1/#{PATH}", "to what is no address of a coordinator"),
        (A, f"ftp://b:1{PATH}", "to what is no address of a coordinator"),
        (A, f"http://{'b' * 3_000}{PATH}", "to what is no address of a coordinator"),
        ("https://a:1", f"http://b:1{PATH}", "to http://b:1, which is not followed from https"),
        ("HTTPS://a:1", f"HTTP://b:1{PATH}", "to HTTP://b:1, which is not followed from https"),
    ],
)
def test_should_not_follow_a_redirect_that_leads_astray(here: str, location: str | None, why: str) -> None:
    route = routes.CallRoute(routes.CoordinatorAddresses((here,)), CALL)
    attempt = known(route.next(10.0))
    assert not route.answered(attempt, 307, location)
    assert route.next(10.0) is None
    assert route.outcomes[here].endswith(why)
    assert "secret" not in route.outcomes[here]


@pytest.mark.parametrize(("here", "there"), [(A, B), (A, "https://b:1"), ("https://a:1", "https://b:1")])
def test_should_follow_a_redirect_that_is_as_secret_as_before(here: str, there: str) -> None:
    assert carried_out(routes.CoordinatorAddresses((here,)), lambda url: there if url == here else 200)[0] == there


def test_should_begin_calls_about_any_group_with_the_address_that_answered_last() -> None:
    addresses = routes.CoordinatorAddresses((A, B))
    addresses.moved(CALL.group, B)
    assert addresses.current("another group") == B


def test_should_ask_to_be_held_no_longer_than_there_is_time() -> None:
    call = routes.CoordinatorCall("/v1/groups/g/heartbeat", 1.0, {"a": "b c"}, wait_ms=3_000)
    route = routes.CallRoute(routes.CoordinatorAddresses((A, B)), call)
    first = known(route.next(call.longest_s))
    assert (first.url, first.timeout_s) == (f"{A}/v1/groups/g/heartbeat?a=b%20c&wait_ms=3000", 3.5)
    assert not route.answered(first, 307, f"{C}{first.target}")  # the group moved while it was held
    second = known(route.next(1.25))
    assert (second.url, second.timeout_s) == (f"{C}/v1/groups/g/heartbeat?a=b%20c&wait_ms=250", 0.75)
    route.unanswered(second, "silent")
    third = known(route.next(0.5))
    assert (third.url, third.timeout_s) == (f"{B}/v1/groups/g/heartbeat?a=b%20c&wait_ms=0", 0.5)


def test_should_ask_one_address_and_where_it_leads_when_the_caller_asks_again_soon() -> None:
    call = routes.CoordinatorCall("/v1/groups/g/heartbeat", 1.0, wait_ms=2_000, one_address=True)
    addresses = routes.CoordinatorAddresses((A, B))
    says: dict[str, Says] = {A: None, B: C, C: None}
    asked = [carried_out(addresses, says.__getitem__, call)[1] for _ in range(3)]
    assert asked == [[(A, 3.0)], [(B, 3.0), (C, 3.0)], [(B, 3.0), (C, 3.0)]], "the one that answered, not the first"


def test_should_ask_an_address_again_whose_connection_has_ended_but_once() -> None:
    call = routes.CoordinatorCall("/v1/groups/g/heartbeat", 1.0, wait_ms=2_000, one_address=True)
    addresses = routes.CoordinatorAddresses((A, B))
    route = routes.CallRoute(addresses, call)
    first = known(route.next(3.0))
    route.unanswered(first, "ended", old_connection_ended=True)
    again = known(route.next(1.5))
    assert (again.address, again.target) == (A, "/v1/groups/g/heartbeat?wait_ms=500"), "so much of its time is left"
    assert addresses.current("g") == A
    route.unanswered(again, "ended", old_connection_ended=True)
    assert route.next(1.0) is None
    assert addresses.current("g") == B


@pytest.mark.parametrize(
    ("path", "group"),
    [
        ("/v1/groups", ""),
        ("/v1/groups/", ""),
        ("/v1/groups/g%2Fh", "g%2Fh"),
        ("/v1/groups/g/members/m", "g"),
        ("/v1/tokens/groups/g", ""),
        ("/readyz", ""),
    ],
)
def test_should_know_which_group_a_call_is_about(path: str, group: str) -> None:
    assert routes.CoordinatorCall(path, 1.0).group == group


@pytest.mark.parametrize(
    "text",
    [
        "http://h:1 ",
        "http://h\n:1",
        "http://a b",
        "http://h\x00",
        "https://[::1",
        "http://h:99999",
        f"http://{'a' * 64}/",
    ],
)
def test_should_not_take_broken_text_for_an_address(text: str) -> None:
    assert not routes.is_address(text)


def test_should_name_addresses_unless_there_is_one_that_the_caller_knows() -> None:
    assert routes.outcomes_text({A: "refused"}, (A,)) == "refused"
    assert routes.outcomes_text({B: "refused"}, (A,)) == f"{B}: refused"
    assert routes.outcomes_text({A: "refused", B: "silent"}, (A, B)) == f"{A}: refused; {B}: silent"


def test_should_prefer_a_url_of_https_for_what_tls_needs() -> None:
    assert routes.CoordinatorAddresses((A, "https://b", C)).secured == "https://b"
    assert routes.CoordinatorAddresses((A, B)).secured == A


# --- whatever they do

listed = st.lists(st.sampled_from([A, B, C, "http://d:1", "https://e:1"]), min_size=1, max_size=5, unique=True)
does = st.one_of(
    st.none(), st.sampled_from([200, 404, 429, 502, 503, 504]), st.sampled_from([A, B, "https://e:1", *ELSEWHERE])
)


@given(listed, st.lists(does, min_size=40, max_size=40), st.sampled_from([None, 0, 2_000]), st.booleans())
def test_should_end_each_call_in_time_and_ask_nobody_again_who_failed(
    urls: list[str], doing: list[Says], wait_ms: int | None, one_address: bool
) -> None:
    addresses = routes.CoordinatorAddresses(urls)
    call = routes.CoordinatorCall("/v1/groups/g", 10.0, wait_ms=wait_ms, one_address=one_address)
    left = iter(doing)
    for _ in range(4):
        failed: list[str] = []
        earlier: list[tuple[str, Says]] = []

        def says(url: str, failed: list[str] = failed, earlier: list[tuple[str, Says]] = earlier) -> Says:
            assert url not in failed
            answer = next(left)
            if url not in urls and earlier and earlier[-1][0].startswith("https:"):
                assert url.startswith("https:"), "no token goes from https to http"
            if answer in (None, 502, 503, 504):
                failed.append(url)
            earlier.append((url, answer))
            return answer

        answered, asked, route = carried_out(addresses, says, call)
        # the first one asked may be where an earlier call was sent on to
        assert len(asked) <= len({*urls, asked[0][0]}) + routes.MOST_REDIRECTS
        assert sum(timeout_s for (_, timeout_s), (_, answer) in zip(asked, earlier, strict=True) if answer is None) <= (
            call.longest_s + 1e-6
        )
        assert all(timeout_s > 0 for _, timeout_s in asked)
        if answered is not None:
            assert addresses.current("g") == answered
        elif not one_address:
            assert set(urls) <= set(route.outcomes), "all were asked"
        assert route.outcomes.keys() >= set(failed)


@given(listed, st.data())
def test_should_find_the_one_that_answers_wherever_it_is(urls: list[str], data: st.DataObject) -> None:
    """One call does, and heartbeats do with so many as there are addresses, or one more after a redirect's failure."""
    addresses = routes.CoordinatorAddresses(urls)
    heartbeat = routes.CoordinatorCall("/v1/groups/g/heartbeat", 1.0, wait_ms=100, one_address=True)
    for _ in range(5):
        alive = data.draw(st.sampled_from(urls))
        if data.draw(st.booleans()):
            addresses.moved("g", data.draw(st.sampled_from([*urls, "http://gone:1"])))
        others: dict[str, Says] = {url: data.draw(st.sampled_from([None, 503])) for url in (*urls, "http://gone:1")}
        says = {**others, alive: 200}
        if data.draw(st.booleans()):
            assert carried_out(addresses, says.__getitem__)[0] == alive
        else:
            found = [carried_out(addresses, says.__getitem__, heartbeat)[0] for _ in range(len(urls) + 1)]
            assert alive in found
            assert found[-1] == alive, "and stays there"
