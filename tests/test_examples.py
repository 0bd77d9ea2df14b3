"""Each application of `examples/`, run with the one command that its first lines name, prints what it should."""

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.checkout import ROOT
from tests.oracle.broker import Broker
from tests.spark_jobs.quick_java import OPTIONS

EXAMPLES = ROOT / "examples"
TIMEOUT_S = 240

PRINTED = {
    "count_words": "a: 1\nand: 1\ncat: 2\ndog: 2\nthe: 3\n",
    "enrich_orders": (
        "c1 {'customer': {'country': 'UK', 'name': 'Ada'}, 'item': 'tea'}\n"
        "c2 {'customer': {'country': 'US', 'name': 'Grace'}, 'item': 'nails'}\n"
        "c3 {'customer': None, 'item': 'ink'}\n"
    ),
    "web_shop": (
        "paid: o1 of ada, 900 cents\n"
        "paid: o3 of ada, 2500 cents\n"
        "reminder: o2 of grace, 2500 cents\n"
        "refund: o9, 300 cents\n"
        "visit: mallory from 09:03 to 09:08, failed login\n"
        "visit: grace from 09:09 to 09:10, failed login, pot\n"
        "visit: ada from 09:01 to 09:34, home, pot, tea\n"
        "visit: ada from 10:15 to 10:15, home\n"
        "alarm: mallory from 09:00, 3 failed logins in ten minutes\n"
    ),
    "forgotten_carts": "ada: untouched for 40 minutes\ngrace: untouched for 45 minutes\n",
    "exactly_once": (
        "killed: exit code -9\nkilled: exit code -9\nfinished: exit code 0\n"
        + "".join(f"account-{number}: 2000 payments\n" for number in range(10))
    ),
}


def printed_by(name: str, *arguments: str) -> str:
    """Its stdout. Run as a user would, who has activated the environment, anywhere but in the checkout's root."""
    environment = {**os.environ, **OPTIONS, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / f"{name}.py"), *arguments],
        cwd=EXAMPLES,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout


@pytest.mark.long
@pytest.mark.parametrize("name", PRINTED)
def test_should_print_what_it_computes(name: str) -> None:
    assert printed_by(name) == PRINTED[name]


@pytest.mark.kafka
def test_should_count_no_payment_twice_on_kafka(kafka_broker: Broker) -> None:
    assert printed_by("exactly_once", kafka_broker.bootstrap_servers) == PRINTED["exactly_once"]


@pytest.mark.long
def test_should_say_how_many_sales_came_too_late() -> None:
    sums, _, dropped = printed_by("hourly_sales").partition("streams_dropped_records_total")
    assert sums == "north from 0:00 to 1:00: 790 cents\nnorth from 1:00 to 2:00: 400 cents\n"
    assert re.search(r'reason="[^"]*(late|window)[^"]*".* 1\.0$', dropped.strip()), dropped


@pytest.mark.long
def test_should_answer_on_a_web_page() -> None:
    assert "<p>the: 3 times</p>" in printed_by("ask_a_store", "--once")


@pytest.mark.long
@pytest.mark.spark
def test_should_run_as_a_notebook_on_spark() -> None:
    printed = printed_by("spark_notebook")
    assert {f"{task}_{number}" for task in (0, 1) for number in range(4)} <= set(printed.split())
    assert re.findall(r"^\| *(\w+)\| *(\d+)\|$", printed, re.MULTILINE) == [
        ("the", "3000"),
        ("cat", "2000"),
        ("dog", "2000"),
        ("a", "1000"),
        ("and", "1000"),
    ]
    assert "instances ended: not-running, not-running, not-running" in printed


def test_should_say_what_it_shows_and_how_to_run_it() -> None:
    listed = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    found = sorted(path.name for path in EXAMPLES.glob("*.py"))
    assert found == sorted(re.findall(r"\[`(\w+\.py)`\]\(\1\)", listed))
    for name in found:
        text = (EXAMPLES / name).read_text(encoding="utf-8")
        told = ast.get_docstring(ast.parse(text)) or text.partition("\n\n")[0]
        assert f"python examples/{name}" in told, name
