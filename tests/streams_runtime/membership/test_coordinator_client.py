"""What the client sends, and what it makes of every kind of answer, over real sockets."""

import base64
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
import tenacity

from assignor.errors import InputError
from assignor.types import TaskId
from coordinator_client.calls import CoordinatorRefused, Refusal
from streams_runtime.common.failures import ReportedFailure
from streams_runtime.membership import calls
from streams_runtime.membership.coordinator_client import CoordinatorClient, Patience, pause_s
from streams_runtime.queries.client import StateStoreClient
from tests.streams_runtime.stub_service import Answer, Asked, problem, stub_service

SETTINGS = calls.MemberSettings("g", "c", None, None, 1_000, 2_000, leave_on_disconnect=False)
JOIN = calls.JoinRequest(b"\x00\x03", SETTINGS)
JOINED = Answer(201, {"member_id": "m", "generation_id": 3, "state": "PreparingRebalance"})


@pytest.mark.parametrize(
    ("request_", "more"),
    [
        (JOIN, {}),
        (
            calls.JoinRequest(b"\x00\x03", replace(SETTINGS, group_instance_id="app-p0-t0", incarnation=0), "m"),
            {"member_id": "m", "group_instance_id": "app-p0-t0", "incarnation": 0},
        ),
        (
            calls.JoinRequest(b"\x00\x03", replace(SETTINGS, leave_on_disconnect=True), join_id="j-1"),
            {"join_id": "j-1", "leave_on_disconnect": True},
        ),
    ],
    ids=["first", "static member", "may be repeated"],
)
def test_should_send_what_is_known_when_joining_and_no_more(
    request_: calls.JoinRequest, more: dict[str, object]
) -> None:
    with stub_service(JOINED) as service, CoordinatorClient(service.url, token="secret") as client:
        assert client.join("g", request_) == calls.JoinReply("m", 3, "PreparingRebalance")
        times = {"session_timeout_ms": 1_000, "rebalance_timeout_ms": 2_000}
        body = {"subscription": "AAM=", "client_id": "c", **times, **more}
        assert service.asked == [Asked("POST", "/v1/groups/g/subscriptions", body, "Bearer secret")]


def test_should_escape_names_in_addresses() -> None:
    with stub_service(Answer(204)) as service, CoordinatorClient(service.url) as client:
        client.leave("a/b", "m?n c")
        assert [(asked.path, asked.body) for asked in service.asked] == [("/v1/groups/a%2Fb/members/m%3Fn%20c", None)]


def test_should_send_the_failure_with_a_leave() -> None:
    failure = ReportedFailure("ValueError", "no amount", "orders.py:12, in to_amount", "0_1")
    with stub_service(Answer(204)) as service, CoordinatorClient(service.url) as client:
        client.leave("g", "m", failure=failure)
        texts = {"error": "ValueError", "message": "no amount", "place": "orders.py:12, in to_amount", "task": "0_1"}
        assert [asked.body for asked in service.asked] == [{"failure": texts}]


def test_should_give_one_recorded_rebalance() -> None:
    with stub_service(Answer(200, {"version": "rebalance/1"})) as service, CoordinatorClient(service.url) as client:
        assert client.rebalance("g", 4) == {"version": "rebalance/1"}
        assert [asked.path for asked in service.asked] == ["/v1/groups/g/rebalances/4"]


def test_should_give_the_bytes_when_the_assignment_is_there() -> None:
    document = {"generation_id": 4, "assignment": base64.b64encode(b"\x00\x01\xff").decode(), "followup": True}
    with stub_service(Answer(200, document)) as service, CoordinatorClient(service.url) as client:
        fetched = client.assignment("g", "m", min_generation=4, wait_ms=250)
        assert fetched == calls.FetchedAssignment(4, b"\x00\x01\xff", followup=True)
        assert [asked.path for asked in service.asked] == [
            "/v1/groups/g/members/m/assignment?min_generation=4&wait_ms=250"
        ]


def test_should_give_nothing_when_the_assignment_is_not_there_yet() -> None:
    with stub_service(Answer(204)) as service, CoordinatorClient(service.url) as client:
        assert client.assignment("g", "m", min_generation=1, wait_ms=0) is None


def test_should_take_the_bytes_alone_when_the_service_sends_them_raw() -> None:
    headers = (
        ("Content-Type", "application/octet-stream"),
        ("Assignor-Generation-Id", "4"),
        ("Assignor-Followup", "true"),
        ("Assignor-Error", "no topic %C3%A9, 100%25"),
    )
    with (
        stub_service(Answer(200, b"\x00\x01\xff", headers=headers)) as service,
        CoordinatorClient(service.url) as client,
    ):
        assert client.assignment("g", "m", min_generation=4, wait_ms=0) == calls.FetchedAssignment(
            4, b"\x00\x01\xff", followup=True, error="no topic é, 100%"
        )


def test_should_speak_for_all_members_of_a_process_in_one_heartbeat() -> None:
    document = {
        "state": "Stable",
        "generation_id": 7,
        "news": "abc",
        "members": {
            "m": {"rejoin": True, "stop": False, "assignment_generation": 6},
            "n": {"code": "UNKNOWN_MEMBER_ID", "detail": "gone"},
        },
    }
    with stub_service(Answer(200, document)) as service, CoordinatorClient(service.url) as client:
        heartbeats = client.process_heartbeats("g")
        sent = {"m": calls.MemberHeartbeat(6, {TaskId(0, 3): 5}), "n": calls.MemberHeartbeat(0)}
        reply = heartbeats.send(sent, known="ab", wait_ms=250)
        heartbeats.close()
        assert (reply.state, reply.generation_id, reply.news) == ("Stable", 7, "abc")
        assert reply.members["m"] == calls.HeartbeatNews(rejoin=True, stop=False, assignment_generation=6)
        assert isinstance(reply.members["n"], calls.UnknownMemberId)
        (asked,) = service.asked
        assert asked.path == "/v1/groups/g/heartbeat?wait_ms=250"
        assert asked.body == {
            "members": {"m": {"generation_id": 6, "task_offset_sums": {"0_3": 5}}, "n": {"generation_id": 0}},
            "known": "ab",
        }


def test_should_end_a_held_heartbeat_when_another_thread_breaks_it_off() -> None:
    asked, released = threading.Event(), threading.Event()

    class Noting(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            asked.set()
            return released.wait(timeout)

    with (
        stub_service(Answer(200, {}, after=Noting())) as service,
        CoordinatorClient(service.url) as client,
        ThreadPoolExecutor(1) as others,
    ):
        heartbeats = client.process_heartbeats("g")
        sending = others.submit(heartbeats.send, {"m": calls.MemberHeartbeat(0)}, wait_ms=60_000)
        assert asked.wait(30.0)
        heartbeats.break_off()
        try:
            assert isinstance(sending.exception(10.0), calls.CoordinatorUnavailable)
        finally:
            released.set()


def test_should_pass_on_how_long_an_overloaded_coordinator_wants_it_to_wait() -> None:
    answer = Answer(429, {"status": 429, "code": "THROTTLING_QUOTA_EXCEEDED"}, headers=(("Retry-After", "2"),))
    with stub_service(answer) as service, CoordinatorClient(service.url) as client:
        with pytest.raises(calls.CoordinatorUnavailable) as raised:
            client.join("g", JOIN)
        assert raised.value.retry_after_ms == 2_000


@pytest.mark.parametrize(
    "status,code,error",
    [
        (404, "GROUP_ID_NOT_FOUND", calls.GroupIdNotFound),
        (404, "UNKNOWN_MEMBER_ID", calls.UnknownMemberId),
        (409, "ILLEGAL_GENERATION", calls.IllegalGeneration),
        (409, "REBALANCE_IN_PROGRESS", calls.RebalanceInProgress),
        (409, "FENCED_INSTANCE_ID", calls.FencedInstanceId),
        (409, "FENCED_MEMBER_EPOCH", calls.FencedMemberEpoch),
        (422, "INVALID_SESSION_TIMEOUT", calls.CoordinatorError),
    ],
)
def test_should_raise_the_error_that_kafka_names(status: int, code: str, error: type[calls.CoordinatorError]) -> None:
    with stub_service(problem(status, code, "so it is")) as service, CoordinatorClient(service.url) as client:
        with pytest.raises(calls.CoordinatorError) as raised:
            client.join("g", JOIN, patience=Patience(60.0))
        assert type(raised.value) is error
        assert (raised.value.code, raised.value.status, raised.value.detail) == (code, status, "so it is")
        assert len(service.asked) == 1, "a refusal is an answer: it is not asked again"


def test_should_take_a_missing_token_for_a_mistake_of_the_caller() -> None:
    with (
        stub_service(problem(401, "SASL_AUTHENTICATION_FAILED", "a token is needed")) as service,
        CoordinatorClient(service.url) as client,
        pytest.raises(
            calls.NotLetIn, match="a token is needed; a command takes it from --token-file or ASSIGNOR_AUTH_TOKEN"
        ),
    ):
        client.describe("g")
    assert issubclass(calls.NotLetIn, InputError)


@pytest.mark.parametrize("end", [" ", "\n", "\r\n", "\0", "\u00e4"])
def test_should_refuse_a_token_that_no_header_can_carry_without_showing_it(end: str) -> None:
    for make in (
        lambda token: CoordinatorClient("http://127.0.0.1:1", token=token),
        lambda token: StateStoreClient(["127.0.0.1:1"], token=token),
    ):
        with pytest.raises(InputError, match="token: a token is one line of printable ASCII") as refused:
            make(f"s3cr3t{end}")
        assert "s3cr3t" not in str(refused.value)


def test_should_name_the_status_when_an_error_is_no_problem_document() -> None:
    with (
        stub_service(Answer(403, ["no"])) as service,
        CoordinatorClient(service.url) as client,
        pytest.raises(calls.CoordinatorError, match="HTTP_403"),
    ):
        client.describe("g")


def test_should_have_left_when_the_member_is_not_known() -> None:
    with stub_service(problem(404, "UNKNOWN_MEMBER_ID")) as service, CoordinatorClient(service.url) as client:
        client.leave("g", "m")
        assert len(service.asked) == 1


@pytest.mark.parametrize(
    "unusable",
    [
        Answer(hang_up=True),
        problem(503, "COORDINATOR_LOAD_IN_PROGRESS"),
        problem(503, "KAFKA_STORAGE_ERROR"),
        problem(429, "THROTTLING_QUOTA_EXCEEDED"),
        Answer(502, "a proxy's page"),
    ],
)
def test_should_ask_again_when_no_usable_answer_came(unusable: Answer) -> None:
    with stub_service(unusable, JOINED) as service, CoordinatorClient(service.url) as client:
        assert client.join("g", JOIN, patience=Patience(30.0)).member_id == "m"
        assert len(service.asked) == 2


@pytest.mark.parametrize("document", [{"member_id": "m"}, ["not", "an", "object"], {"member_id": 1}])
def test_should_call_the_service_unavailable_when_its_answer_is_not_the_contract(document: object) -> None:
    with (
        stub_service(Answer(200, document)) as service,
        CoordinatorClient(service.url) as client,
        pytest.raises(calls.CoordinatorUnavailable),
    ):
        client.join("g", JOIN)


def test_should_give_up_when_patience_ends() -> None:
    with stub_service(Answer(hang_up=True)) as service, CoordinatorClient(service.url) as client:
        with pytest.raises(calls.CoordinatorUnavailable):
            client.join("g", JOIN, patience=Patience(0.2))
        assert len(service.asked) > 1


def test_should_give_up_at_once_when_told_to_stop() -> None:
    stop = threading.Event()
    stop.set()
    with stub_service(Answer(hang_up=True)) as service, CoordinatorClient(service.url) as client:
        with pytest.raises(calls.CoordinatorUnavailable):
            client.join("g", JOIN, patience=Patience(3600.0, stop))
        assert len(service.asked) == 1


def test_should_repeat_a_patient_call_after_any_pause_up_to_one_that_grows() -> None:
    state = tenacity.RetryCallState(tenacity.Retrying(), None, (), {})
    for state.attempt_number, longest_s in ((1, 0.05), (2, 0.1), (3, 0.2), (50, 0.5)):
        assert all(0 <= pause_s(state) <= longest_s for _ in range(100))
    refused = CoordinatorRefused(Refusal(429, "THROTTLING_QUOTA_EXCEEDED", "overloaded", retry_after_s=0.8), "http://a")
    state.set_exception((CoordinatorRefused, refused, None))
    assert all(0.8 <= pause_s(state) <= 1.6 for _ in range(100))
