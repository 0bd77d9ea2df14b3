"""Calls of a coordinator over real sockets: repeated, refused, and without an answer."""

import pytest
import tenacity

from assignor.errors import InputError
from coordinator_client.addresses import CoordinatorCall
from coordinator_client.calls import CoordinatorRefused, NoAnswer, Refusal, addresses_of
from coordinator_client.http_client import CoordinatorHttpClient, TimeLeft
from tests.streams_runtime.stub_service import Answer, problem, stub_service

CALL = CoordinatorCall("/v1/groups/g", 10.0)
ANSWER = Answer(200, {"state": "Stable"})
NOT_READY = problem(503, "COORDINATOR_LOAD_IN_PROGRESS")


def test_should_give_the_answer_and_its_address() -> None:
    with stub_service(ANSWER) as service, CoordinatorHttpClient(addresses_of(service.url), "secret") as http:
        answer = http.call("GET", CALL)
        (asked,) = service.asked
    assert (answer.address, answer.url, answer.status) == (service.url, f"{service.url}/v1/groups/g", 200)
    assert answer.content == b'{"state": "Stable"}'
    assert answer.headers["content-length"] == str(len(answer.content))
    assert asked.authorization == "Bearer secret"


def test_should_raise_a_refusal_with_the_address_that_it_is_from() -> None:
    with (
        stub_service(problem(404, "GROUP_ID_NOT_FOUND", "gone")) as service,
        CoordinatorHttpClient(addresses_of(service.url), None) as http,
    ):
        with pytest.raises(CoordinatorRefused, match="GROUP_ID_NOT_FOUND: gone") as raised:
            http.call("DELETE", CALL)
        assert http.call("DELETE", CALL, accept=(404,)).status == 404
    assert raised.value.address == service.url
    assert raised.value.refusal == Refusal(404, "GROUP_ID_NOT_FOUND", "gone")


def test_should_repeat_only_what_no_coordinator_took() -> None:
    def tried() -> tenacity.Retrying:
        return tenacity.Retrying(stop=tenacity.stop_after_attempt(3))

    with (
        stub_service(Answer(hang_up=True), NOT_READY, ANSWER) as service,
        CoordinatorHttpClient(addresses_of(service.url), None) as http,
    ):
        assert http.call("GET", CALL, retrying=tried()).status == 200
        service.answers = [NOT_READY]
        with pytest.raises(CoordinatorRefused):
            http.call("GET", CALL)
        with pytest.raises(CoordinatorRefused):
            http.call("GET", CALL, retrying=tried())
        assert len(service.asked) == 3 + 1 + 3
        service.answers = [problem(409, "ILLEGAL_GENERATION")]
        with pytest.raises(CoordinatorRefused):
            http.call("GET", CALL, retrying=tried())
        assert len(service.asked) == 7 + 1


def test_should_take_an_answer_that_cannot_be_decoded_for_none() -> None:
    """A proxy may send it. The next address is asked."""
    packed = Answer(200, b"plain", headers=(("Content-Encoding", "gzip"),))
    with stub_service(packed) as service, stub_service(ANSWER) as other:
        with (
            CoordinatorHttpClient(addresses_of(service.url), None) as http,
            pytest.raises(NoAnswer, match="Error -3"),
        ):
            http.call("GET", CALL)
        with CoordinatorHttpClient(addresses_of(f"{service.url},{other.url}"), None) as http:
            assert http.call("GET", CALL).address == other.url


def test_should_refuse_a_host_that_httpx_cannot_call() -> None:
    with pytest.raises(InputError, match=r"^http://999\.1\.1\.1: is no address of a coordinator: "):
        CoordinatorHttpClient(addresses_of("http://a,http://999.1.1.1"), None)


def test_should_take_the_time_of_all_steps_from_one_time() -> None:
    left = TimeLeft(60.0)
    assert sorted(left) == ["connect", "pool", "read", "write"]
    assert left["connect"] == 2.0
    assert 2.0 < left["read"] <= 60.0
    assert left["pool"] >= left["write"], "it passes"
    assert len(left) == 4
    assert left.get("anything else") is None
    over = TimeLeft(-1.0)
    assert 0.0 < over["connect"] == over["read"] < 0.01, "no time is not for ever"
