"""The pictures of the page in docs/images, made anew: `python -m docs._tools.screenshots`, or `make screenshots`.

The group is real: the demo's word count on three instances of this machine, one of which is closed in mid-work. Beside
it there are groups whose members do nothing. Each picture has one size and few colours, so that it stays small.
"""

import io
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import httpx
from PIL import Image
from playwright.sync_api import Browser, Page

from spark_jobs.demo.word_count import TextFeed, stdlib_lines, word_count
from streams_runtime.local_run.coordinator_process import CoordinatorProcess
from streams_runtime.local_run.local_run import LocalRun
from streams_runtime.logs.opening import open_log
from tests.browser.chromium import running_browser
from tests.browser.few_members import FewMembers
from tests.checkout import ROOT
from tests.coordinator_api.group_members import HttpMember
from tests.coordinator_api.held_rebalance import wait_until_held
from tests.waiting import wait_until

IMAGES = ROOT / "docs" / "images"
COLOURS = 256
GROUP = "word-count"
HELD = "payments"
_TEXT_LINES = 40_000
_SETTLED_MS = 1_500  # countdowns and bars have moved once, and fonts are there
_SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
_TIMEOUT_S = 60.0


@dataclass(frozen=True, slots=True)
class View:
    """`name`: in the name of the file. `address`: below the coordinator. `height`, `width`: of the screen, in pixels.

    `prepare`: what is done before the picture. `is_closed`: of a service that wants a token.
    """

    name: str
    address: str
    height: int = 860
    width: int = 1280
    prepare: Callable[[Page], None] = lambda page: None
    is_closed: bool = False


def to(selector: str) -> Callable[[Page], None]:
    """Scrolls there."""
    return lambda page: page.locator(selector).evaluate("at => at.scrollIntoView()")


VIEWS = (
    View("groups", "/ui/groups", height=560),
    View("group", f"/ui/groups/{GROUP}"),
    View("task", f"/ui/groups/{GROUP}/tasks/1_0"),
    View("time", f"/ui/groups/{GROUP}/time"),
    View("compare", f"/ui/groups/{GROUP}/time?before=1&after=2", prepare=to("#compared")),
    View("what-if", f"/ui/groups/{GROUP}/what-if?add=1x2", prepare=to("#forecast")),
    View("topology", f"/ui/groups/{GROUP}/topology", width=1_760),
    View("levers", f"/ui/groups/{HELD}/levers", height=1_000),
    View("login", "/ui/login", height=420, is_closed=True),
)


def main() -> None:
    IMAGES.mkdir(exist_ok=True)
    with (
        tempfile.TemporaryDirectory(prefix="assignor-screenshots-", ignore_cleanup_errors=True) as directory,
        running_groups(Path(directory)) as open_url,
        closed_service(Path(directory)) as closed_url,
        running_browser() as browser,
    ):
        for view in VIEWS:
            url = closed_url if view.is_closed else open_url
            if httpx.get(url + view.address, headers={"Accept": "text/html"}).status_code != 200:
                print(f"{view.address} is not there: no picture", file=sys.stderr)
                continue
            for scheme in _SCHEMES:
                path = IMAGES / f"ui-{view.name}-{scheme}.png"
                path.write_bytes(small(picture(browser, url, view, scheme)))
                print(f"{path.relative_to(ROOT)}: {path.stat().st_size:,} bytes")


@contextmanager
def closed_service(directory: Path) -> Iterator[str]:
    token = directory / "token"
    token.write_text("a-token-of-this-picture-alone")
    token.chmod(0o600)
    with CoordinatorProcess(directory / "closed", {"auth.token.file": token}) as coordinator:
        yield coordinator.url


def hold_a_rebalance(client: httpx.Client) -> None:
    """Two members run all tasks; a third has their state on its disk, and its share waits for approval."""
    group = FewMembers(client, HELD).declare(partitions=6).join(2)
    told = {"User-Agent": "ada"}
    hold = client.put(
        f"/v1/groups/{HELD}/hold", json={"time_limit_ms": 3_600_000}, params={"reason": "a sale"}, headers=told
    )
    hold.raise_for_status()
    third = HttpMember(client, HELD, client_id=f"{HELD}-2", session_timeout_ms=1_800_000)
    third.subscribe({f"0_{number}": 1_000 for number in range(6)}).raise_for_status()
    for member in group.members:
        member.subscribe().raise_for_status()
    wait_until_held(third)


@contextmanager
def running_groups(directory: Path) -> Iterator[str]:
    """Gives the coordinator's address, once the word count has lost an instance and the others work."""
    address = f"embedded:{directory / 'log'}"
    settings = {"cluster.bootstrap.servers": address, "group.initial.rebalance.delay.ms": 500}
    application = word_count(
        {
            "application.id": GROUP,
            "bootstrap.servers": address,
            "state.dir": str(directory / "state"),
            "num.stream.threads": 2,
            "num.standby.replicas": 1,
            "acceptable.recovery.lag": 20,
        }
    )
    with CoordinatorProcess(directory / "coordinator", settings) as coordinator:
        log = open_log(address)
        lines = list(stdlib_lines(_TEXT_LINES))
        feed = TextFeed(log, lines)
        feed.write(lines)
        with (
            httpx.Client(base_url=coordinator.url, timeout=60, trust_env=False) as client,
            LocalRun(application, instances=3, coordinator=coordinator.url) as run,
        ):
            FewMembers(client, "orders").declare(partitions=12).join(3)
            FewMembers(client, "clicks").declare(partitions=8).join(1)
            FewMembers(client, "invoices").declare()
            hold_a_rebalance(client)
            run.wait_until_running()
            run.instances[2].close(_TIMEOUT_S)
            wait_for_generation(client, 2)
            feed.write(lines)
            yield coordinator.url
        feed.close()
        log.close()


def wait_for_generation(client: httpx.Client, generation_id: int) -> None:
    def is_reached() -> bool:
        group = client.get(f"/v1/groups/{GROUP}").json()
        return group["state"] == "Stable" and bool(group["generation_id"] >= generation_id)

    wait_until(is_reached, f"generation {generation_id}")


def picture(browser: Browser, url: str, view: View, scheme: Literal["light", "dark"]) -> bytes:
    """The top of the page, as it is on a screen of this size."""
    context = browser.new_context(
        viewport={"width": view.width, "height": view.height}, color_scheme=scheme, locale="en-GB", timezone_id="UTC"
    )
    try:
        page = context.new_page()
        page.goto(url + view.address)
        view.prepare(page)
        page.wait_for_timeout(_SETTLED_MS)
        return page.screenshot(animations="disabled")
    finally:
        context.close()


def small(png: bytes) -> bytes:
    """The same picture with at most COLOURS colours, and nothing in the file but the picture."""
    with Image.open(io.BytesIO(png)) as image:
        few = image.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
    written = io.BytesIO()
    few.save(written, "PNG", optimize=True)
    return written.getvalue()


if __name__ == "__main__":
    main()
