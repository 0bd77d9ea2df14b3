"""A real Prometheus that scrapes quickly, and the project's own rules with short times."""

import os
import re
import shutil
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.checkout import ROOT
from tests.no_tls import NO_TLS
from tests.package.test_deployment import free_port
from tests.running_program import RunningProgram
from tests.waiting import wait_until

RULES = ROOT / "deploy" / "prometheus" / "assignor-alerts.yml"
DASHBOARD = ROOT / "deploy" / "grafana" / "assignor.json"
_SCRAPE = "1s"
_WINDOW = "6s"
_FOR = "4s"  # a busy machine misses a scrape or two


def prometheus_programs() -> tuple[str, str]:
    """The server and promtool. Skips the test where they are not, and fails it in CI."""
    server, tool = shutil.which("prometheus"), shutil.which("promtool")
    if server is None or tool is None:
        missing = "there is no prometheus and promtool on the PATH: `make prometheus` installs Debian's"
        if os.environ.get("CI"):
            pytest.fail(missing)
        pytest.skip(missing)
    return server, tool


def hurried(expression: str) -> str:
    """With windows of seconds, and ages that a test can wait for."""
    return re.sub(r"> (5|60|900)\b", "> 0.5", re.sub(r"\[\d+m\]", f"[{_WINDOW}]", expression))


def hurried_rules() -> str:
    return hurried(re.sub(r"for: \d+m", f"for: {_FOR}", RULES.read_text(encoding="utf-8")))


class Prometheus:
    def __init__(self, url: str) -> None:
        self._client = httpx.Client(base_url=f"{url}/api/v1", timeout=30, trust_env=False, verify=NO_TLS)

    def query(self, expression: str) -> list[dict[str, Any]]:
        """The samples of now. Raises AssertionError for an expression that it does not understand."""
        answer = self._client.get("/query", params={"query": expression}).json()
        assert answer["status"] == "success", f"{expression}: {answer}"
        found: list[dict[str, Any]] = answer["data"]["result"]
        return found

    def firing(self) -> dict[str, dict[str, Any]]:
        """Alerts by name."""
        alerts = self._client.get("/alerts").json()["data"]["alerts"]
        return {each["labels"]["alertname"]: each for each in alerts if each["state"] == "firing"}

    def rule_problems(self) -> list[str]:
        groups = self._client.get("/rules").json()["data"]["groups"]
        return [rule["lastError"] for group in groups for rule in group["rules"] if rule.get("lastError")]


@contextmanager
def running_prometheus(directory: Path, targets: Mapping[str, str]) -> Iterator[Prometheus]:
    """`targets`: host and port by job. Ends with the block."""
    server, _ = prometheus_programs()
    (directory / "rules.yml").write_text(hurried_rules(), encoding="utf-8")
    jobs = "".join(f"  - job_name: {job}\n    static_configs: [{{targets: ['{at}']}}]\n" for job, at in targets.items())
    config = directory / "prometheus.yml"
    config.write_text(
        f"global: {{scrape_interval: {_SCRAPE}, scrape_timeout: {_SCRAPE}, evaluation_interval: {_SCRAPE}}}\n"
        f"rule_files: [rules.yml]\nscrape_configs:\n{jobs}"
    )
    url = f"http://127.0.0.1:{free_port()}"
    places = [f"--config.file={config}", f"--storage.tsdb.path={directory / 'data'}"]
    command = [server, *places, f"--web.listen-address={url.removeprefix('http://')}"]
    with RunningProgram(command, directory / "prometheus.log", first=signal.SIGKILL) as process:
        wait_until(lambda: _answers(url), lambda: process.log, alive=lambda: process.is_running)
        yield Prometheus(url)


def _answers(url: str) -> bool:
    try:
        return httpx.get(f"{url}/-/ready", trust_env=False, verify=NO_TLS).is_success
    except httpx.TransportError:
        return False
