"""What the wheel and the sdist have in them, and what is said of them."""

import re
import subprocess
import tomllib
from pathlib import Path

import pytest

from docs._tools.extra_sizes import installable
from tests.checkout import ROOT
from tests.package.distributions import build, files_of, unpacked
from tests.package.environments import TRIED

NAMES = {
    "assignor",
    "assignor_cli",
    "coordinator_api",
    "coordinator_client",
    "kafka_client",
    "kafka_groups",
    "operating_system",
    "rebalance_analysis",
    "spark_engine",
    "spark_jobs",
    "streams_runtime",
}


@pytest.fixture(scope="module")
def distributions(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return build(tmp_path_factory.mktemp("distributions"))


@pytest.mark.long
def test_should_install_nothing_at_top_level_but_packages_of_names_of_our_own(distributions: tuple[Path, Path]) -> None:
    wheel, _ = distributions

    top = {name.split("/")[0] for name in files_of(wheel)}

    assert {name for name in top if not name.endswith(".dist-info")} == NAMES


@pytest.mark.long
def test_should_have_every_file_of_the_packages_and_no_other(distributions: tuple[Path, Path]) -> None:
    wheel, _ = distributions
    tracked = subprocess.run(
        ["git", "ls-files", *NAMES, "migrations"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    there = {name for name in files_of(wheel) if ".dist-info/" not in name}

    expected = {
        f"coordinator_api/{name}" if name.startswith("migrations/") else name for name in tracked.stdout.splitlines()
    }

    assert there == expected


@pytest.mark.long
def test_should_build_the_same_wheel_from_the_sdist(distributions: tuple[Path, Path], tmp_path: Path) -> None:
    wheel, sdist = distributions

    again, _ = build(tmp_path / "again", unpacked(sdist, tmp_path / "unpacked"))

    assert files_of(again) == files_of(wheel)


def test_should_declare_the_pythons_that_it_is_tried_with() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

    kind = "Programming Language :: Python :: "
    declared = [name.removeprefix(kind) for name in project["classifiers"] if name.startswith(f"{kind}3.")]

    assert tuple(declared) == TRIED
    assert project["requires-python"] == f">={TRIED[0]}"


def test_should_state_the_size_of_every_extra() -> None:
    page = (ROOT / "docs" / "how-to" / "install.md").read_text(encoding="utf-8")

    stated = re.findall(r"^\| `(assignor\S*)` \| \d+ MB \|", page, re.MULTILINE)

    assert sorted(stated) == sorted(installable())
