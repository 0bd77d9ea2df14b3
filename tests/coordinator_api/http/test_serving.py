"""How the serving process ends: at once for callers who have not sent their requests, and even when it stands still."""

import json
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.checkout import ROOT
from tests.coordinator_api.group_members import definition
from tests.coordinator_api.service_process import ServiceProcess, clean_environment

STANDS_STILL = """
import sys
from assignor_cli.app import main
from coordinator_api.http.models.member_models import HeartbeatBody

def stands_still(body, member_id):
    print("the event loop stands still", file=sys.stderr, flush=True)
    while True:
        pass

HeartbeatBody.to_heartbeat = stands_still
sys.argv = ["assignor", "serve", "--port", "0", "--shutdown-timeout-ms", "1000"]
main()
"""
"""`assignor serve`, with an event loop that does nothing any more after the first heartbeat."""


def call(method: str, path: str, body: bytes) -> bytes:
    head = (
        f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
    )
    return head.encode() + b"\r\n\r\n" + body


DECLARE = call("PUT", "/v1/groups/g", json.dumps(definition()).encode())
HEARTBEAT = call("POST", "/v1/groups/g/members/m/heartbeat", b'{"generation_id": 1}')


@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.long)])
def test_should_end_in_time_although_the_event_loop_stands_still(tmp_path: Path, number: signal.Signals) -> None:
    environment = clean_environment({"PYTHONPATH": str(ROOT)})
    with subprocess.Popen(
        [sys.executable, "-c", STANDS_STILL], cwd=tmp_path, env=environment, stderr=subprocess.PIPE, text=True
    ) as service:
        try:
            assert service.stderr is not None
            port = next(int(found[1]) for line in service.stderr if (found := re.search(r"listens on .*:(\d+) ", line)))
            with socket.create_connection(("127.0.0.1", port)) as caller:
                caller.sendall(DECLARE)
                assert caller.recv(100).startswith(b"HTTP/1.1 201 ")
                caller.sendall(HEARTBEAT)
                assert any("stands still" in line for line in service.stderr)
                service.send_signal(number)
                asked_s = time.monotonic()
                assert service.wait(20) == 1
                assert time.monotonic() - asked_s < 8
        finally:
            service.kill()


def test_should_not_wait_for_the_rest_of_a_body_when_it_stops(tmp_path: Path) -> None:
    head = b"PUT /v1/groups/g HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 500\r\n"
    with ServiceProcess(tmp_path, "--shutdown-timeout-ms", "60000") as service:
        port = int(service.url.rpartition(":")[2])
        with socket.create_connection(("127.0.0.1", port)) as caller:
            # the interim answer says that the service waits for the body
            caller.sendall(head + b"Expect: 100-continue\r\n\r\n")
            assert caller.recv(100).startswith(b"HTTP/1.1 100 ")

            assert service.stop() == 0

            answer = b"".join(iter(lambda: caller.recv(4_096), b""))
    assert answer.startswith(b"HTTP/1.1 503 ")
    assert b'"COORDINATOR_NOT_AVAILABLE"' in answer
    assert not [line for line in service.log if "Cancel" in line or "stop_cut_short" in line]
