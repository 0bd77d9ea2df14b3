"""A reader finds the page that answers a question: each page is listed, by its own question."""

import re

from tests.checkout import ROOT
from tests.docs.pages import read

INDEX = "docs/how-to/index.md"
LISTED = re.findall(r"^- \[(?P<question>.+)\]\((?P<page>[\w-]+\.md)\)$", read(INDEX), re.MULTILINE)


def test_should_answer_twenty_questions() -> None:
    assert len(LISTED) > 20
    assert [
        question for question, _ in LISTED if not (question.startswith("How do I ") and question.endswith("?"))
    ] == []


def test_should_list_every_page_once() -> None:
    pages = [page.name for page in ROOT.glob("docs/how-to/*.md") if page.name != "index.md"]

    assert sorted(page for _, page in LISTED) == sorted(pages)
