"""A group on Spark executors, followed by three pages at once: an executor is killed, and each page tells it.

How long a page takes is counted from the coordinator's own log line about the commit to the change of the document, by
the clock of the machine that both run on. So neither the test's own pace nor Spark's counts. A busy machine may be
late once: the executor that Spark starts in its place is killed, too, up to ATTEMPTS times, and one attempt in time is
enough. What is told has to be right each time.
"""

import json
import os
import re
import signal
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, Page, expect
from pyspark.sql import SparkSession

from assignor.names.short_names import client_of_instance
from spark_engine.session.spark_session import spark_session
from spark_jobs.ownership.group_view import GroupView, MemberView
from spark_jobs.workers.running import run
from streams_runtime.local_run.coordinator_process import CoordinatorProcess
from streams_runtime.membership.coordinator_client import CoordinatorClient
from tests.acceptance.group_under_test import THREADS, GroupUnderTest
from tests.browser.pages import is_same_page, mark
from tests.browser.scripts import script
from tests.browser.watched import Watched
from tests.spark_jobs.log_directories import LogDirectories
from tests.spark_jobs.quick_java import quick_java
from tests.spark_jobs.small_application import write_records
from tests.told import Tell
from tests.warm_coordinator import WarmCoordinator

pytestmark = [pytest.mark.spark, pytest.mark.long]

GROUP_ID = "watched-group"
EXECUTORS = 2
MEMBERS = EXECUTORS * THREADS
RECORDS = 20
SHOWN_WITHIN_MS = 1_000
ATTEMPTS = 3
NOTE_WHEN = script("note_when")
INSTANCE_IS_GONE = "(process) => !document.getElementById(`instance-${process}`)"
REBALANCE_IS_LISTED = "(generation) => document.getElementById(`generation-${generation}`)"
HISTORY_IS_OF = "(generation) => document.getElementById('now').textContent.endsWith(`generation ${generation}`)"


@pytest.fixture(scope="module")
def log_directories(tmp_path_factory: pytest.TempPathFactory) -> LogDirectories:
    return LogDirectories(tmp_path_factory.mktemp("logs"))


@pytest.fixture(scope="module")
def coordinator(
    tmp_path_factory: pytest.TempPathFactory, log_directories: LogDirectories
) -> Iterator[CoordinatorProcess]:
    """Its first rebalance waits until all executors are up: who joins later would have to warm up first."""
    settings = {"group.initial.rebalance.delay.ms": 5_000, "log.format": "json", **log_directories.setting}
    with WarmCoordinator(tmp_path_factory.mktemp("coordinator"), settings) as process:
        yield process


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    with quick_java(), spark_session(f"local-cluster[{EXECUTORS},1,1024]", "watched group") as session:
        yield session


@pytest.fixture
def group(
    spark: SparkSession, coordinator: CoordinatorProcess, log_directories: LogDirectories, tmp_path: Path
) -> Iterator[GroupUnderTest]:
    with CoordinatorClient(coordinator.url) as client:
        tested = GroupUnderTest(coordinator, client, GROUP_ID, log_directories.take(), tmp_path)
        write_records(tested.records, RECORDS)
        settings = tested.settings()
        workers = run(
            spark,
            settings.application,
            instances=EXECUTORS,
            coordinator_url=coordinator.url,
            state_dir=settings.state_dir,
            log_dir=settings.log_dir,
        )
        try:
            yield tested
        finally:
            workers.stop()


def test_should_tell_of_a_killed_executor_within_a_second(
    group: GroupUnderTest, context: BrowserContext, watched: Watched, tell: Tell
) -> None:
    watched.origins.add(group.coordinator.url)
    group.wait_until_counted(RECORDS)
    for _ in range(ATTEMPTS):
        view = group.wait_until_whole(MEMBERS, "all executors to be there, caught up", is_settled)
        if max(kill_and_follow(group, view, context, tell)) <= SHOWN_WITHIN_MS:
            return
    pytest.fail(f"in none of {ATTEMPTS} attempts all three pages told of it within {SHOWN_WITHIN_MS} ms")


def kill_and_follow(
    group: GroupUnderTest, view: GroupView, context: BrowserContext, tell: Tell
) -> tuple[float, float, float]:
    """Milliseconds from the commit to the grid, the line of time and the history."""
    killed = next(member for member in view.members if member.active)
    gone = {member.member_id for member in view.members if member.process_id == killed.process_id}
    stays = next(member for member in view.members if member.process_id != killed.process_id)
    task, generation = killed.active[0], view.generation_id
    pages = [context.new_page() for _ in range(3)]
    grid, line, history = pages
    for page, path in ((grid, ""), (line, "/time"), (history, f"/tasks/{task}")):
        page.goto(f"{group.coordinator.url}/ui/groups/{GROUP_ID}{path}")
        mark(page)
    expect(grid.locator(f"#instance-{killed.process_id}")).to_be_visible()
    expect(line.locator(f"#generation-{generation}")).to_be_visible()
    expect(history.locator("#now")).to_have_text(f"Where it is, by generation {generation}")
    grid.evaluate(NOTE_WHEN % INSTANCE_IS_GONE, killed.process_id)
    line.evaluate(NOTE_WHEN % REBALANCE_IS_LISTED, generation + 1)
    history.evaluate(NOTE_WHEN % HISTORY_IS_OF, generation + 1)

    (jvm_pid,) = {each.jvm_pid for each in group.lines() if each.member_id == killed.member_id}
    assert jvm_pid is not None
    killed_ms = time.time() * 1_000
    os.kill(jvm_pid, signal.SIGKILL)

    gone_ms, listed_ms, told_ms = [shown_ms(page) for page in pages]
    assert_tells_where_it_was(line, history, killed, generation + 1, stays)
    assert all(is_same_page(page) for page in pages)
    removed_ms = max(logged_ms(group, event="member_removed", member=member_id) for member_id in gone)
    placed_ms = logged_ms(group, event="rebalance_completed", generation=generation + 1)
    took_ms = gone_ms - removed_ms, listed_ms - placed_ms, told_ms - placed_ms
    tell(
        f"after SIGKILL of an executor its members were removed within {removed_ms - killed_ms:.0f} ms, which the grid "
        f"showed {took_ms[0]:.0f} ms later; its tasks were placed within {placed_ms - killed_ms:.0f} ms, "
        f"which the line of time showed {took_ms[1]:.0f} ms later and the history of a task {took_ms[2]:.0f} ms later"
    )
    for page in pages:
        page.close()
    return took_ms


def instance(member: MemberView) -> str:
    """A pattern of its name: an executor that took the place of another has the same client id."""
    return rf"{re.escape(client_of_instance(member.client_id))}( \({member.process_id[:8]}\))?"


def assert_tells_where_it_was(
    line: Page, history: Page, killed: MemberView, generation: int, stays: MemberView
) -> None:
    """Spark may have started another executor meanwhile, so only what does not change any more is looked at."""
    why = f"{instance(killed)} is gone"
    row = line.locator(f"#generation-{generation}")
    expect(row).to_contain_text("a member left")
    expect(row).to_contain_text(re.compile(why))
    told = history.locator(".rounds > li").filter(has_text=f"Generation {generation}: moved")
    expect(told).to_contain_text(re.compile(f"Because {why}"))
    expect(told.locator(".copies li").filter(has_text=", active")).to_contain_text(re.compile(f"on {instance(stays)}"))


def shown_ms(page: Page) -> float:
    """When it was, as the page noted it; waits for that."""
    return float(page.wait_for_function("() => window.shownMs").json_value())


def is_settled(view: GroupView) -> bool:
    return view.is_settled and all(lag <= 0 for lag in view.lags.values())


def logged_ms(group: GroupUnderTest, **values: object) -> float:
    """When the coordinator wrote this line: after the commit, and before it woke whoever looks."""
    lines = group.coordinator.log_file.read_text().splitlines()
    said = [json.loads(line) for line in lines if line.startswith("{")]
    (found,) = [line for line in said if values.items() <= line.items()]
    return datetime.fromisoformat(found["timestamp"]).timestamp() * 1_000
