"""The pages that people read, and what is in them: links, headings, blocks of code."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.checkout import ROOT

_FENCE = re.compile(r"^(?P<fence>`{3,})(?P<language>[^\n`]*)\n(?P<code>.*?)^(?P=fence)$", re.MULTILINE | re.DOTALL)
_INLINE_CODE = re.compile(r"(`+)[^`].*?\1", re.DOTALL)
_LINK = re.compile(r"\]\((?P<target>[^)\s]+)\)")
_HEADING = re.compile(r"^#{1,6} (?P<title>.+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block. `language`: as written, "" without one. `line`: of its fence, from 1."""

    page: str
    line: int
    language: str
    code: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def pages() -> list[str]:
    """README, its neighbours, those of the examples, and everything below docs/, relative to the root."""
    found = [page for pattern in ("*.md", "docs/**/*.md", "examples/*.md") for page in sorted(ROOT.glob(pattern))]
    return [str(page.relative_to(ROOT)) for page in found]


def read(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def blocks(page: str) -> Iterator[Block]:
    text = read(page)
    for found in _FENCE.finditer(text):
        yield Block(page, text.count("\n", 0, found.start()) + 1, found["language"].strip(), found["code"])


def prose(page: str) -> str:
    """The page without its blocks of code."""
    return _FENCE.sub("", read(page))


def links(page: str) -> Iterator[str]:
    """Targets within the repository, as written."""
    for found in _LINK.finditer(_INLINE_CODE.sub("code", prose(page))):
        if not re.match(r"[a-z]+:", found["target"]):
            yield found["target"]


def broken(page: str, target: str) -> bool:
    """Whether `target` names a file, or a heading of a page, that is not there."""
    path, _, anchor = target.partition("#")
    file = (ROOT / page).parent / path if path else ROOT / page
    if not file.is_file():
        return True
    return anchor != "" and anchor not in anchors(file)


def anchors(file: Path) -> set[str]:
    """The anchors that a git forge makes of a page's headings: lower case, no punctuation, hyphens for spaces."""
    found: set[str] = set()
    for title in _HEADING.findall(_FENCE.sub("", file.read_text(encoding="utf-8"))):
        slug = re.sub(r"[^\w\- ]", "", re.sub(r"\]\([^)]*\)", "", title).lower()).replace(" ", "-")
        number = sum(each == slug or each.startswith(f"{slug}-") for each in found)
        found.add(slug if slug not in found else f"{slug}-{number}")
    return found
