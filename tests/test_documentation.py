"""What the documents say is what the code says: settings, metrics, and the rules of the lock files."""

import re
import subprocess

import pytest

from tests.checkout import ROOT
from tests.coordinator_api.documented_names import metrics_table, settings_table

RULES = ROOT / "docs" / "runtime" / "rules.md"
OPERATING = ROOT / "docs" / "operating.md"
LOCK_FILES = ("requirements.lock", "requirements-java.lock")


@pytest.mark.parametrize("table", [settings_table(), metrics_table()], ids=["settings", "metrics"])
def test_should_document_every_setting_and_metric_with_its_default(table: str) -> None:
    assert table in OPERATING.read_text(encoding="utf-8"), f"docs/operating.md should contain:\n{table}"


@pytest.mark.parametrize("name", LOCK_FILES)
def test_should_pin_every_dependency_with_hashes_and_name_no_host(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    requirements = [line for line in text.splitlines() if line and not line.startswith((" ", "#"))]

    assert requirements
    assert [line for line in requirements if not re.match(r"[a-z0-9._-]+==\S+( ; .*)? \\$", line)] == []
    assert text.count("--hash=sha256:") >= len(requirements)
    assert re.findall(r"https?://|index-url|find-links", text) == []


def test_should_commit_no_path_of_a_machine() -> None:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    files = [ROOT / name for name in listed.split("\0") if name and not name.endswith((".gz", ".lock"))]
    machine_path = re.compile(r"(?:^|[^a-zA-Z0-9_.$}])/(?:work|farm|root|home)/[a-z.]")

    found = [
        f"{file.relative_to(ROOT)}: {line.strip()[:100]}"
        for file in files
        if file.is_file()
        for line in file.read_text(encoding="utf-8", errors="replace").splitlines()
        if machine_path.search(line)
    ]

    assert found == []


PAGES = [str(page.relative_to(ROOT)) for page in sorted(ROOT.glob("docs/**/*.md")) if page != RULES]


@pytest.mark.parametrize("document", ["README.md", "ARCHITECTURE.md", *PAGES])
def test_should_name_only_files_that_exist(document: str) -> None:
    text = (ROOT / document).read_text(encoding="utf-8")
    rooms = (
        "assignor|coordinator_api|kafka_client|kafka_groups|streams_runtime|spark_jobs|migrations|tests|benchmarks|docs"
    )
    named = re.findall(rf"`((?:{rooms})/[^`\s*{{]*)`", text)

    assert [path for path in named if not (ROOT / path).exists()] == []


def test_should_name_no_module_that_is_gone_without_its_folder() -> None:
    """As in "`a/b.py`, and `c.py` beside it"."""
    named = set(re.findall(r"`(\w+\.(?:py|pxd))`", (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")))
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout

    assert sorted(named - {name.rpartition("/")[2] for name in listed.splitlines()}) == []


def test_should_name_for_every_rule_of_the_runtime_a_test_that_exists() -> None:
    rows = re.findall(r"^\| (?!rule |-)(.*) \| (.*) \|$", RULES.read_text(encoding="utf-8"), re.MULTILINE)
    named = {rule: re.findall(r"`([\w/]+\.py)::(test_\w+)`", tests) for rule, tests in rows}
    functions = {path: _test_functions(path) for of_rule in named.values() for path, _ in of_rule}

    assert len(rows) > 100
    assert [rule for rule, of_rule in named.items() if not of_rule] == []
    assert [f"{path}::{test}" for each in named.values() for path, test in each if test not in functions[path]] == []


def _test_functions(path: str) -> frozenset[str]:
    """Below tests/; none of a file that is not there."""
    file = ROOT / "tests" / path
    if not file.exists():
        return frozenset()
    return frozenset(re.findall(r"^ *(?:async )?def (test_\w+)\(", file.read_text(encoding="utf-8"), re.MULTILINE))
