"""A led rebalance on its way to a coordinator: one POST, repeated when it is down, told when it is refused."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from coordinator_client.calls import CoordinatorAddress
from kafka_groups import rebalance_reports
from kafka_groups.rebalance_reports import RebalanceNotReported, report_rebalance
from tests.streams_runtime.stub_service import silent_service

NOBODY = "http://127.0.0.1:1"
REBALANCE = {"format": "rebalance/1", "group_id": "word count", "generation_id": 3}


@contextmanager
def _service(*statuses: int, owner: str = "") -> Iterator[tuple[str, list[tuple[str, str | None, object]]]]:
    """Its URL, and path, authorization and document of every POST; answers with each status in turn. `owner`: where a
    redirect leads.
    """
    asked: list[tuple[str, str | None, object]] = []
    left = list(statuses)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            assert self.headers["Content-Type"] == "application/json"
            body = self.rfile.read(int(self.headers["Content-Length"]))
            asked.append((self.path, self.headers["Authorization"], json.loads(body)))
            content = json.dumps({"detail": "the generation is over"}).encode()
            self.send_response(left.pop(0))
            self.send_header("Location", f"{owner}{self.path}")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    serving = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    serving.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/", asked
    finally:
        server.shutdown()
        serving.join()
        server.server_close()


def test_should_send_the_rebalance_once_with_the_token_of_the_file(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("secret\n")
    with _service(201) as (url, asked):
        report_rebalance(CoordinatorAddress(url, token), REBALANCE)
    assert asked == [("/v1/groups/word%20count/rebalances", "Bearer secret", REBALANCE)]


def test_should_try_again_when_the_coordinator_is_not_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ASSIGNOR_AUTH_TOKEN", raising=False)
    with _service(503, 200) as (url, asked):
        report_rebalance(CoordinatorAddress(url), REBALANCE)
    assert asked == [("/v1/groups/word%20count/rebalances", None, REBALANCE)] * 2


def test_should_report_to_the_owner_of_the_group_and_remember_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ASSIGNOR_AUTH_TOKEN", raising=False)
    with _service(201, 200) as (owner, asked), _service(307, owner=owner) as (other, sent_on):
        coordinators = CoordinatorAddress(f"{NOBODY},{other}")
        report_rebalance(coordinators, REBALANCE)
        report_rebalance(coordinators, REBALANCE)
    assert (len(sent_on), len(asked)) == (1, 2)
    assert sent_on[0] == asked[0]


def test_should_name_each_address_when_no_coordinator_takes_it() -> None:
    with (
        _service(307, 307, 307, owner=NOBODY) as (url, _),
        pytest.raises(RebalanceNotReported, match=f"coordinator at {url}: .*{NOBODY}: .*refused"),
    ):
        report_rebalance(CoordinatorAddress(url), REBALANCE)


def test_should_leave_time_for_the_next_address_when_one_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rebalance_reports, "_ANSWER_TIMEOUT_S", 1.0)
    with silent_service() as silent, _service(201) as (url, asked):
        report_rebalance(CoordinatorAddress(f"{silent},{url}"), REBALANCE)
    assert len(asked) == 1


def test_should_say_why_a_rebalance_was_refused_and_not_repeat_it() -> None:
    with _service(409) as (url, asked):
        with pytest.raises(RebalanceNotReported, match="status 409: the generation is over"):
            report_rebalance(CoordinatorAddress(url), REBALANCE)
        assert len(asked) == 1
