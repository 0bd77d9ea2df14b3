"""Before instances start: the application can be sent to them, the coordinator answers and takes it, and nobody runs
these instances already.

An instance is known by its number (`<application>-p0-t0`), so that it finds its place and its state again. Two of one
number would throw each other out of the group for ever. So a driver that finds them waits until they have left, which
those of a driver that died soon do, and gives up when they are alive.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable

from pyspark import cloudpickle

from assignor.errors import InputError
from spark_jobs.workers.group_view import MemberView, group_view
from streams_runtime.application import Application, group_body
from streams_runtime.membership.calls import CoordinatorUnavailable
from streams_runtime.membership.coordinator_client import CoordinatorClient, Patience

ALIVE_MS = 12_000
"""Whoever is heard of for so long after the look at the group is not about to leave."""
LOOK_INTERVAL_S = 0.5


def declare(
    app: Application,
    client: CoordinatorClient,
    url: str,
    *,
    instances: int,
    say: Callable[[str], None],
    wait_s: float = 0.0,
    replace: bool = False,
) -> None:
    """Declare the application's group, and see that none of its instances runs.

    `wait_s`: how long to wait for a coordinator that does not answer. `replace`: also when living members run another
    topology, which may end them. Raises InputError for an application that cannot be sent to executors and for
    instances that run already; GroupRunsAnotherTopology, CoordinatorError, CoordinatorUnavailable.
    """
    body = group_body(app)
    _check_can_travel(app)
    try:
        try:
            client.declare(app.id, body, replace=replace)
        except CoordinatorUnavailable as fault:
            if wait_s <= 0:
                raise
            say(f"waiting for the coordinator at {url}, for {wait_s:g} s at most ({fault})")
            client.declare(app.id, body, replace=replace, patience=Patience(wait_s))
            say(f"the coordinator at {url} answers")
    except CoordinatorUnavailable as fault:
        raise CoordinatorUnavailable(
            f"no coordinator answers at {url} ({fault}): start one with `assignor serve`, or name it by --coordinator"
        ) from fault
    _wait_for_earlier_instances(app.id, client, instances, say)


def _wait_for_earlier_instances(
    group_id: str, client: CoordinatorClient, instances: int, say: Callable[[str], None]
) -> None:
    seen: dict[str, int] = {}
    while earlier := _instances_of(group_id, client, instances):
        names = ", ".join(sorted(member.client_id for member in earlier))
        if not seen:
            say(f"the group has {names} already: waiting until {'they leave' if ', ' in names else 'it leaves'}")
        for member in earlier:
            first = seen.setdefault(member.member_id, member.last_heard_ms or 0)
            if (member.last_heard_ms or 0) - first >= ALIVE_MS:
                raise InputError(
                    f"its instances run already, started by another driver ({names}): stop that one first, "
                    "or give this application another application.id",
                    group_id,
                )
        time.sleep(LOOK_INTERVAL_S)


def _instances_of(group_id: str, client: CoordinatorClient, instances: int) -> list[MemberView]:
    name = re.compile(rf"{re.escape(group_id)}-p(\d+)-t\d+")
    return [
        member
        for member in group_view(client, group_id).members
        if (found := name.fullmatch(member.client_id)) is not None and int(found[1]) < instances
    ]


def _check_can_travel(app: Application) -> None:
    try:
        cloudpickle.dumps(app)  # type: ignore[no-untyped-call]
    except Exception as error:  # the objects in a topology may raise anything when they are pickled
        raise InputError(
            "the application cannot be pickled for executors: "
            f"{_unpicklable_part(app)}{type(error).__name__}: {error}. "
            "Make locks, connections and clients inside of the function, or in the init of a processor",
            app.id,
        ) from error


def _unpicklable_part(app: Application) -> str:
    """Which processor it is, with a colon after it; empty when it is none of them."""
    for name, node in app.topology.builder.definition().nodes.items():
        try:
            cloudpickle.dumps(node.supplier)  # type: ignore[no-untyped-call]
        except Exception:
            return f"{name}: "
    return ""
