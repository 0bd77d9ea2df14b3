"""What shuts people out of a page, as axe-core finds it: the rules of WCAG 2.2, A and AA, and its best practices."""

from functools import cache
from importlib.resources import files
from typing import Any

from playwright.sync_api import Page

_RUN = "async () => (await axe.run(document, {resultTypes: ['violations']})).violations"
_MOST_NODES_TOLD = 5


def findings(page: Page) -> list[str]:
    """Each finding in words: the rule, how bad it is, what to do, and where."""
    _bring_axe(page)
    return [_in_words(violation) for violation in page.evaluate(_RUN)]


def assert_accessible(page: Page) -> None:
    found = findings(page)
    assert not found, f"axe has findings on {page.url}:\n" + "\n".join(found)


def _bring_axe(page: Page) -> None:
    """Past the page's Content-Security-Policy, which rightly refuses it as a script of the page."""
    if page.evaluate("() => typeof axe === 'undefined'"):
        session = page.context.new_cdp_session(page)
        answer = session.send("Runtime.evaluate", {"expression": _axe_source()})
        assert "exceptionDetails" not in answer, answer
        session.detach()


@cache
def _axe_source() -> str:
    return files("axe_playwright_python").joinpath("axe.min.js").read_text(encoding="utf-8")


def _in_words(violation: dict[str, Any]) -> str:
    nodes = violation["nodes"]
    told = [f"    {' '.join(map(str, node['target']))}: {_failure(node)}" for node in nodes[:_MOST_NODES_TOLD]]
    rest = len(nodes) - len(told)
    more = [f"    and {rest} more"] if rest else []
    return "\n".join([f"{violation['id']} ({violation['impact']}): {violation['help']}", *told, *more])


def _failure(node: dict[str, Any]) -> str:
    return "; ".join(line.strip() for line in str(node.get("failureSummary", "")).splitlines()[1:])
