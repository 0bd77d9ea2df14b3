"""A led rebalance on its way to a coordinator: one POST, repeated when it is down, reported when it is refused."""

from pathlib import Path

import pytest

from coordinator_client.calls import CoordinatorAddress
from kafka_groups.rebalance_reports import RebalanceNotReported, report_rebalance
from tests.streams_runtime.stub_service import Answer, Asked, problem, sent_on, stub_service

NOBODY = "http://127.0.0.1:1"
REBALANCE = {"format": "rebalance/1", "group_id": "word count", "generation_id": 3}
PATH = "/v1/groups/word%20count/rebalances"


@pytest.fixture(autouse=True)
def no_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ASSIGNOR_AUTH_TOKEN", raising=False)


def test_should_send_the_rebalance_once_with_the_token_of_the_file(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("secret\n")
    with stub_service(Answer(201)) as service:
        report_rebalance(CoordinatorAddress(f"{service.url}/", token), REBALANCE)
    assert service.asked == [Asked("POST", PATH, REBALANCE, "Bearer secret")]
    assert service.asked[0].content_type == "application/json"


def test_should_try_again_when_the_coordinator_is_not_ready() -> None:
    with stub_service(Answer(503), Answer(200)) as service:
        report_rebalance(CoordinatorAddress(service.url), REBALANCE)
    assert service.asked == [Asked("POST", PATH, REBALANCE, None)] * 2


def test_should_remember_the_owner_of_the_group_for_the_next_report() -> None:
    with stub_service(Answer(201)) as owner, stub_service(sent_on(owner.url)) as other:
        coordinators = CoordinatorAddress(other.url)
        for _ in range(2):
            report_rebalance(coordinators, REBALANCE)
    assert (len(other.asked), len(owner.asked)) == (1, 2)


def test_should_name_each_address_when_no_coordinator_takes_it() -> None:
    with (
        stub_service(sent_on(NOBODY)) as service,
        pytest.raises(RebalanceNotReported, match=f"coordinator at {service.url}: .*{NOBODY}: .*refused"),
    ):
        report_rebalance(CoordinatorAddress(service.url), REBALANCE)


def test_should_name_the_reason_of_a_refusal_and_not_repeat_the_call() -> None:
    with stub_service(problem(409, "ILLEGAL_GENERATION", "the generation is over")) as service:
        with pytest.raises(RebalanceNotReported, match="status 409: the generation is over"):
            report_rebalance(CoordinatorAddress(service.url), REBALANCE)
        assert len(service.asked) == 1
