"""Where the client's calls go when there are several coordinators, over real sockets."""

import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from assignor.errors import InputError
from streams_runtime.membership import calls
from streams_runtime.membership.coordinator_client import CoordinatorClient, Patience, ProcessHeartbeats
from tests.streams_runtime.stub_service import (
    LONGEST_WAIT_S,
    Answer,
    Asked,
    StubService,
    problem,
    sent_on,
    silent_service,
    stub_service,
)
from tests.tls_certificates import Authority

JOIN = calls.JoinRequest(b"\x00\x03", calls.MemberSettings("g", "c", None, None, 1_000, 2_000))
JOINED = Answer(201, {"member_id": "m", "generation_id": 3, "state": "PreparingRebalance"})
REPLY = calls.JoinReply("m", 3, "PreparingRebalance")
DEAD = Answer(hang_up=True)
NOT_READY = problem(503, "COORDINATOR_LOAD_IN_PROGRESS")
MEMBERS = {"m": calls.MemberHeartbeat(0)}
ANSWERED = Answer(200, {"state": "Stable", "generation_id": 7, "news": "abc", "members": {}})
NOBODY = "http://127.0.0.1:1"


def paths(service: StubService) -> list[str]:
    return [asked.path for asked in service.asked]


def test_should_follow_a_redirect_with_body_and_token_and_remember_where_it_led() -> None:
    with stub_service(JOINED) as owner, stub_service(sent_on(owner.url)) as other:
        with CoordinatorClient(other.url, token="secret") as client:
            assert client.join("a/b", JOIN) == REPLY
            assert client.join("a/b", JOIN) == REPLY
        body = calls.join_body(JOIN)
        asked = Asked("POST", "/v1/groups/a%2Fb/subscriptions", body, "Bearer secret")
        assert (other.asked, owner.asked) == ([asked], [asked, asked])


def test_should_follow_a_redirect_with_its_query() -> None:
    with stub_service(Answer(204)) as owner, stub_service(sent_on(owner.url)) as other:
        with CoordinatorClient(other.url) as client:
            assert client.assignment("g", "m", min_generation=4, wait_ms=250) is None
        (asked,) = paths(owner)
        path, _, wait_ms = asked.rpartition("=")
        assert path == "/v1/groups/g/members/m/assignment?min_generation=4&wait_ms"
        assert 0 < int(wait_ms) <= 250


def test_should_keep_the_groups_of_several_coordinators_apart() -> None:
    with stub_service(JOINED) as second, stub_service(JOINED, sent_on(second.url), JOINED) as first:
        with CoordinatorClient(first.url) as client:
            for group in ("a", "b", "a", "b"):
                client.join(group, JOIN)
        assert paths(first) == [f"/v1/groups/{group}/subscriptions" for group in ("a", "b", "a")]
        assert paths(second) == ["/v1/groups/b/subscriptions"] * 2


def test_should_end_with_a_clear_error_when_coordinators_send_a_call_round_in_a_circle() -> None:
    with stub_service(DEAD) as one, stub_service(sent_on(one.url)) as other:
        one.answers = [sent_on(other.url)]
        with (
            CoordinatorClient(f"{one.url},{other.url}") as client,
            pytest.raises(
                calls.CoordinatorUnavailable, match=f"{other.url}: sends the call on to {one.url}, after 3 others"
            ),
        ):
            client.join("g", JOIN)
        assert len(one.asked) + len(other.asked) == 4


def test_should_go_from_http_to_https_and_not_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    authority = Authority(tmp_path, "authority")
    certificate = authority.issue("coordinator", for_servers=True)
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.file))
    with stub_service(JOINED) as plain, stub_service(JOINED, sent_on(plain.url), certificate=certificate) as secured:
        with stub_service(sent_on(secured.url)) as other, CoordinatorClient(other.url, token="secret") as client:
            assert client.join("g", JOIN) == REPLY
            assert secured.asked[0].authorization == "Bearer secret"
        with (
            CoordinatorClient(secured.url, token="secret") as client,
            pytest.raises(calls.CoordinatorUnavailable, match=f"to {plain.url}, which is not followed from https"),
        ):
            client.join("g", JOIN)
        assert plain.asked == []


@pytest.mark.parametrize(
    "location", ["http://ann:secret@127.0.0.1:1", "http://127.0.0.1:1/?a=", "ftp://127.0.0.1:1", ""]
)
def test_should_not_follow_a_redirect_to_what_is_no_address(location: str) -> None:
    with (
        stub_service(sent_on(location)) as service,
        CoordinatorClient(service.url) as client,
        pytest.raises(calls.CoordinatorUnavailable, match="sends the call on to ") as raised,
    ):
        client.join("g", JOIN)
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize("unusable", [DEAD, NOT_READY, Answer(502, "a proxy's page"), Answer(504)])
def test_should_ask_the_next_address_and_stay_with_it(unusable: Answer) -> None:
    with stub_service(unusable) as first, stub_service(JOINED) as second:
        with CoordinatorClient(f"{first.url},{second.url}") as client:
            assert [client.join("g", JOIN), client.join("g", JOIN)] == [REPLY, REPLY]
        assert (len(first.asked), len(second.asked)) == (1, 2)


def test_should_ask_the_next_address_when_nobody_listens_at_the_first() -> None:
    with stub_service(JOINED) as second, CoordinatorClient(f"{NOBODY},{second.url}") as client:
        assert client.join("g", JOIN) == REPLY


def test_should_leave_time_for_the_next_address_when_the_first_says_nothing() -> None:
    with silent_service() as first, stub_service(Answer(204)) as second:
        with CoordinatorClient(f"{first},{second.url}") as client:
            client.leave("g", "m", timeout_s=1.0)
        assert paths(second) == ["/v1/groups/g/members/m"]


def test_should_end_in_its_time_when_nobody_says_anything() -> None:
    with (
        silent_service() as first,
        silent_service() as second,
        stub_service(sent_on(first)) as third,
        CoordinatorClient(f"{third.url},{second}") as client,
    ):
        with pytest.raises(calls.CoordinatorUnavailable) as raised:
            client.leave("g", "m", timeout_s=0.6)
        assert all(url in str(raised.value) for url in (first, second, third.url)), "it names all of them"


def test_should_ask_an_address_that_has_come_back() -> None:
    with stub_service(DEAD) as first, stub_service(JOINED) as second:
        with CoordinatorClient(f"{first.url},{second.url}") as client:
            client.join("g", JOIN)
            first.answers, second.answers = [JOINED], [DEAD]
            client.join("g", JOIN)
            client.join("g", JOIN)
        assert (len(first.asked), len(second.asked)) == (3, 2)


def test_should_say_what_each_said_when_none_can_serve_the_call() -> None:
    with (
        stub_service(DEAD) as first,
        stub_service(NOT_READY) as second,
        CoordinatorClient(f"{first.url},{second.url}") as client,
        pytest.raises(calls.CoordinatorUnavailable, match="COORDINATOR_LOAD_IN_PROGRESS"),
    ):
        client.join("g", JOIN)
    with (
        CoordinatorClient(f"{NOBODY},http://127.0.0.1:2") as client,
        pytest.raises(calls.CoordinatorUnavailable) as raised,
    ):
        client.join("g", JOIN)
    assert f"{NOBODY}: [Errno 111] Connection refused" in str(raised.value)
    assert "http://127.0.0.1:2: [Errno 111] Connection refused" in str(raised.value)


def test_should_take_the_refusal_of_one_for_the_answer_of_all() -> None:
    with stub_service(problem(404, "GROUP_ID_NOT_FOUND")) as first, stub_service(JOINED) as second:
        with CoordinatorClient(f"{first.url},{second.url}") as client, pytest.raises(calls.GroupIdNotFound):
            client.join("g", JOIN)
        assert second.asked == []


def test_should_be_patient_with_all_of_them_together() -> None:
    with (
        stub_service(DEAD, NOT_READY, JOINED) as first,
        stub_service(DEAD, DEAD, NOT_READY) as second,
        CoordinatorClient(f"{first.url},{second.url}") as client,
    ):
        assert client.join("g", JOIN, patience=Patience(30.0)) == REPLY


def test_should_let_many_threads_find_the_same_coordinator() -> None:
    with stub_service(JOINED) as owner, stub_service(sent_on(owner.url)) as second, stub_service(DEAD) as first:
        with CoordinatorClient(f"{first.url},{second.url}") as client, ThreadPoolExecutor(8) as threads:
            joined = list(threads.map(lambda _: client.join("g", JOIN), range(64)))
            assert joined == [REPLY] * 64
            assert client.addresses.current("g") == owner.url
        assert len(owner.asked) == 64
        assert len(first.asked) <= 8, "each thread learns it once"


@pytest.mark.parametrize("address", ["http://127.0.0.1:8080,127.0.0.1:8081", "http://a,", "http://a,http://b@c"])
def test_should_name_the_address_that_is_none(address: str) -> None:
    with pytest.raises(InputError, match="--coordinator: address 2 of 2 must be a URL such as http"):
        CoordinatorClient(address)


# --- the connection of the heartbeats


def heartbeats_of(client: CoordinatorClient, group: str = "g") -> closing[ProcessHeartbeats]:
    return closing(client.process_heartbeats(group))


def test_should_send_heartbeats_where_the_join_was_sent() -> None:
    with stub_service(JOINED, ANSWERED) as owner, stub_service(sent_on(owner.url)) as other:
        with CoordinatorClient(other.url) as client, heartbeats_of(client) as heartbeats:
            client.join("g", JOIN)
            heartbeats.send(MEMBERS, wait_ms=250)
        assert (len(other.asked), len(owner.asked)) == (1, 2)


def test_should_move_the_connection_and_end_the_old_one_only_when_the_new_owner_has_answered() -> None:
    seen: list[int] = []
    with stub_service(ANSWERED) as old, stub_service(ANSWERED) as new:
        new.answers = [Answer(ANSWERED.status, ANSWERED.document, first=lambda: seen.append(old.open)), ANSWERED]
        old.answers = [ANSWERED, sent_on(new.url)]
        with CoordinatorClient(old.url, token="secret") as client, heartbeats_of(client) as heartbeats:
            heartbeats.send(MEMBERS, wait_ms=20)
            heartbeats.send(MEMBERS, known="abc", wait_ms=20)
            old.wait_until_open(0)
            heartbeats.send(MEMBERS, known="abc", wait_ms=20)
            assert new.open == 1
        assert seen == [1], "it was open when the new owner got the heartbeat"
        assert (len(old.asked), len(new.asked)) == (2, 2)
        assert new.asked[0] == Asked("POST", new.asked[0].path, old.asked[1].body, "Bearer secret")
        new.wait_until_open(0)


def test_should_keep_the_connection_that_gave_no_answer_until_another_one_has() -> None:
    """The first coordinator is slow, and not dead: it must not see the end of a process that lives."""
    seen: list[bool] = []
    with socket.create_server(("127.0.0.1", 0)) as slow, stub_service(ANSWERED) as other:
        url = f"http://127.0.0.1:{slow.getsockname()[1]}"
        with CoordinatorClient(f"{url},{other.url}") as client, heartbeats_of(client) as heartbeats:
            with pytest.raises(calls.CoordinatorUnavailable):
                heartbeats.send(MEMBERS, timeout_s=0.2)
            with slow.accept()[0] as taken:
                taken.setblocking(False)
                answer = replace(ANSWERED, first=lambda: seen.append(is_open(taken)))
                other.answers = [replace(NOT_READY, first=answer.first), answer]
                with pytest.raises(calls.CoordinatorUnavailable):  # which says nothing about the process
                    heartbeats.send(MEMBERS)
                client.addresses.moved("g", other.url)
                heartbeats.send(MEMBERS)
                assert not is_open(taken)
        assert seen == [True, True]


def test_should_open_another_connection_to_the_same_coordinator_when_one_breaks() -> None:
    """Before it takes the process for dead, which it does soon: to ask the next address first could take longer."""
    with silent_service() as other, stub_service(ANSWERED, DEAD, ANSWERED) as owner:
        with CoordinatorClient(f"{owner.url},{other}") as client, heartbeats_of(client) as heartbeats:
            heartbeats.send(MEMBERS)
            heartbeats.send(MEMBERS)
        assert len(owner.asked) == 3


def test_should_go_on_over_the_same_connection_when_the_other_address_was_no_help() -> None:
    with (
        stub_service(ANSWERED) as owner,
        stub_service(DEAD) as other,
        CoordinatorClient(f"{owner.url},{other.url}") as client,
        heartbeats_of(client) as heartbeats,
    ):
        heartbeats.send(MEMBERS)
        owner.answers = [NOT_READY, ANSWERED]
        for _ in range(2):
            with pytest.raises(calls.CoordinatorUnavailable):
                heartbeats.send(MEMBERS)
        heartbeats.send(MEMBERS)
        assert (owner.open, len(owner.asked), len(other.asked)) == (1, 3, 1)
        other.wait_until_open(0)


def test_should_ask_one_address_in_each_heartbeat_and_then_the_next() -> None:
    with (
        silent_service() as first,
        stub_service(ANSWERED) as second,
        CoordinatorClient(f"{first},{second.url}") as client,
        heartbeats_of(client) as heartbeats,
    ):
        with pytest.raises(calls.CoordinatorUnavailable, match=first):
            heartbeats.send(MEMBERS, timeout_s=0.2)
        assert second.asked == []
        assert heartbeats.send(MEMBERS, timeout_s=5.0).generation_id == 7


def test_should_ask_the_new_owner_to_hold_a_heartbeat_for_what_is_left_of_its_time() -> None:
    with stub_service(ANSWERED) as new, stub_service(DEAD) as old:
        moves = threading.Event()
        old.answers = [Answer(307, None, after=moves, owner=new.url)]
        threading.Timer(0.2, moves.set).start()
        with CoordinatorClient(old.url) as client, heartbeats_of(client) as heartbeats:
            heartbeats.send(MEMBERS, wait_ms=5_000)
        (asked,) = paths(new)
        assert int(asked.rpartition("=")[2]) < 5_000


def test_should_end_a_heartbeat_at_whichever_coordinator_it_is() -> None:
    released = threading.Event()
    ended: list[calls.CoordinatorUnavailable] = []
    with stub_service(ANSWERED) as new, stub_service(sent_on(new.url)) as old:
        new.answers = [Answer(ANSWERED.status, ANSWERED.document, after=released)]
        with CoordinatorClient(old.url) as client, heartbeats_of(client) as heartbeats:

            def send() -> None:
                with pytest.raises(calls.CoordinatorUnavailable) as raised:
                    heartbeats.send(MEMBERS, wait_ms=60_000)
                ended.append(raised.value)

            sending = threading.Thread(target=send)
            sending.start()
            new.wait_until_asked(1)
            heartbeats.break_off()
            sending.join(LONGEST_WAIT_S)
        released.set()
    assert len(ended) == 1


def test_should_not_leave_connections_behind_when_nobody_answers() -> None:
    """A frozen coordinator takes each of them, and its callers try for hours."""
    with socket.create_server(("127.0.0.1", 0), backlog=64) as listening:
        with (
            CoordinatorClient(f"http://127.0.0.1:{listening.getsockname()[1]}") as client,
            heartbeats_of(client) as heartbeats,
        ):
            for _ in range(8):
                with pytest.raises(calls.CoordinatorUnavailable):
                    heartbeats.send(MEMBERS, timeout_s=0.05)
            taken = [listening.accept()[0] for _ in range(8)]
            for each in taken:
                each.setblocking(False)
            assert sum(is_open(each) for each in taken) == 4
        assert not any(is_open(each) for each in taken)
        for each in taken:
            each.close()


def is_open(taken: socket.socket) -> bool:
    """True until its caller ends it. On loopback, this end sees that at once."""
    try:
        while taken.recv(65_536):
            pass
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False
