"""What commands print for people fits 80 columns, whatever the recording; `-o wide` has whole names."""

import gzip
import json

import pytest

from tests.checkout import VECTORS
from tests.program import assignor

WCFLOW = str(VECTORS / "recordings/wcflow.jsonl.gz")
"""Client ids as Kafka Streams makes them, several groups of threads, and lags of millions of records."""


@pytest.mark.parametrize(
    "arguments",
    [
        ("explain", WCFLOW),
        ("explain", WCFLOW, "--all", "--last", "3"),
        ("explain", WCFLOW, "--task", "1_1"),
        ("diff", f"{WCFLOW}#wcflow.2", f"{WCFLOW}#wcflow.8"),
        ("assign", WCFLOW, "-o", "text"),
        ("assign", "--check", str(VECTORS / "rebalances_custom.jsonl.gz")),
        ("what-if", WCFLOW, "--set", "num.standby.replicas=2", "--all"),
        ("what-if", WCFLOW, "--add-instances", "2"),
        ("simulate", WCFLOW, "--add-instances", "1"),
        ("decode", "@subscription"),
    ],
    ids=" ".join,
)
def test_should_fit_80_columns(arguments: tuple[str, ...], subscription: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    ran = assignor(*(subscription if word == "@subscription" else word for word in arguments))

    assert ran.returncode in (0, 1)
    assert ran.stdout
    assert [line for line in ran.stdout.splitlines() if len(line) > 80] == []


@pytest.fixture
def subscription() -> str:
    """The longest of the recording, in base64."""
    with gzip.open(WCFLOW) as lines:
        recorded = [json.loads(line)["input"]["members"] for line in lines]
    return max((str(each["subscription"]) for members in recorded for each in members.values()), key=len)


def test_should_show_short_members_and_whole_ones_when_wide() -> None:
    short, wide = (assignor("assign", WCFLOW, "-o", format).stdout for format in ("text", "wide"))

    assert "  a-StreamThread-1: active 0_0" in short
    assert "  a-StreamThread-1-consumer-1f2c7973-2859-4770-b421-0daadaf9b5fc: active 0_0" in wide
