"""`make docs` builds a site without a warning, and the site needs nothing from a network."""

import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

from tests.checkout import ROOT
from tests.docs.pages import pages
from tests.known import known

pytestmark = pytest.mark.long

TIMEOUT_S = 400.0
_REMOTE = re.compile(r"(?:https?:)?//")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("site")
    built = build(ROOT, directory)
    assert (built.returncode, built.stderr) == (0, "")
    return directory


def build(source: Path, directory: Path) -> subprocess.CompletedProcess[str]:
    """As `make docs` does it."""
    doctrees = str(directory.parent / "doctrees")
    flags = ["-b", "html", "-c", "docs", "-d", doctrees, "-E", "-n", "-W", "--keep-going", "-q"]
    return subprocess.run(
        [sys.executable, "-m", "sphinx", *flags, ".", str(directory)],
        cwd=source,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
    )


class Loads(HTMLParser):
    """The files that a browser fetches when it shows the page."""

    def __init__(self) -> None:
        super().__init__()
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        given = dict(attributes)
        if tag in ("script", "img", "iframe", "source"):
            self.addresses.append(given.get("src") or "")
        if tag == "link" and given.get("rel") in ("stylesheet", "preload", "icon", "preconnect", "dns-prefetch"):
            self.addresses.append(given.get("href") or "")


def test_should_have_every_page(site: Path) -> None:
    assert [page for page in pages() if not (site / page).with_suffix(".html").is_file()] == []


def test_should_lead_from_its_root_to_the_first_page(site: Path) -> None:
    led = re.search(r'content="0; url=([^"]+)"', (site / "index.html").read_text(encoding="utf-8"))

    assert (site / known(led)[1]).is_file()


def test_should_load_nothing_from_elsewhere(site: Path) -> None:
    found = []
    for page in site.glob("**/*.html"):
        loads = Loads()
        loads.feed(page.read_text(encoding="utf-8"))
        found += [f"{page.name}: {each}" for each in loads.addresses if _REMOTE.match(each)]
    for style in site.glob("**/*.css"):
        text = style.read_text(encoding="utf-8")
        imported = re.findall(r"(?:url\(|@import)\s*['\"]?((?:https?:)?//[^)'\"]*)", text)
        found += [f"{style.name}: {each}" for each in imported]

    assert found == []


def test_should_carry_a_copy_of_a_linked_file(site: Path) -> None:
    page = site / "docs" / "explanation" / "rebalance.html"
    linked = re.findall(r'href="([^"]*/high_availability\.py)"', page.read_text(encoding="utf-8"))

    assert len(linked) == 1
    original = ROOT / "assignor" / "task_assignors" / "high_availability.py"
    assert (page.parent / linked[0]).read_bytes() == original.read_bytes()


def test_should_show_what_is_generated(site: Path) -> None:
    configs = (site / "docs" / "reference" / "configs.html").read_text(encoding="utf-8")
    names = (site / "docs" / "reference" / "python-streams-runtime.html").read_text(encoding="utf-8")

    assert "session.timeout.ms" in configs
    assert "generated:" not in configs
    assert 'id="streams_runtime.StreamsBuilder"' in names


def test_should_refuse_a_broken_link(tmp_path: Path) -> None:
    (tmp_path / "source" / "docs").mkdir(parents=True)
    shutil.copytree(ROOT / "docs" / "_ext", tmp_path / "source" / "docs" / "_ext")
    shutil.copy(ROOT / "docs" / "conf.py", tmp_path / "source" / "docs")
    page = tmp_path / "source" / "docs" / "index.md"
    page.write_text("# Page\n\n[a](missing.md), [b](#nowhere)\n", encoding="utf-8")

    built = build(tmp_path / "source", tmp_path / "site")

    assert built.returncode != 0
    assert "'missing.md'" in built.stderr
    assert "nowhere" in built.stderr
