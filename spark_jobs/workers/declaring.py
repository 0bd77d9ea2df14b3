"""Declares the application's group before the instances start. Also checks that no earlier program still runs instances
of the application.

The number of an instance is part of its member ids (`<application>-p0-t0`). So after a restart, an instance gets its
former tasks again, and finds its state. Two instances with the same number would fence each other again and again. So
the program waits until no instance of an earlier program is in the group. If the earlier program has died, its
instances soon leave the group. If an earlier instance still sends heartbeats after `ALIVE_MS`, the program ends with an
error.
"""

import re
import time
from collections.abc import Callable

from assignor.errors import InputError
from spark_jobs.ownership.group_view import MemberView, group_view
from spark_jobs.workers.member_process import InstanceSettings
from streams_runtime.instance.application import group_body
from streams_runtime.membership.calls import CoordinatorUnavailable
from streams_runtime.membership.coordinator_client import CoordinatorClient, Patience

ALIVE_MS = 12_000
"""If a member of an earlier program still sends heartbeats this many milliseconds after it was found, the program
treats this member as running.
"""
POLL_INTERVAL_S = 0.5


def declare(
    settings: InstanceSettings,
    client: CoordinatorClient,
    *,
    instances: int,
    report: Callable[[str], None],
    wait_s: float = 0.0,
    replace: bool = False,
) -> None:
    """Declares the application's group, and waits until instances of an earlier program have left the group.

    `wait_s`: the longest wait for a coordinator that does not respond. `replace`: True to replace the topology even if
    members run another topology. A replacement may end members that run another topology. Raises InputError if an
    earlier instance is running. Raises GroupRunsAnotherTopology, CoordinatorError and CoordinatorUnavailable.
    """
    app, url = settings.application, settings.coordinator_url
    body = group_body(app)
    try:
        try:
            client.declare(app.id, body, replace=replace)
        except CoordinatorUnavailable as fault:
            if wait_s <= 0:
                raise
            report(f"waiting for the coordinator at {url}, for {wait_s:g} s at most ({fault})")
            client.declare(app.id, body, replace=replace, patience=Patience(wait_s))
            report(f"the coordinator at {url} answers")
    except CoordinatorUnavailable as fault:
        raise CoordinatorUnavailable(
            f"no coordinator answers at {url} ({fault}): start one with `assignor serve`, or name it by --coordinator"
        ) from fault
    _wait_for_earlier_instances(settings, client, instances, report)


def _wait_for_earlier_instances(
    settings: InstanceSettings, client: CoordinatorClient, instances: int, report: Callable[[str], None]
) -> None:
    seen: dict[str, int] = {}
    while earlier := _instances_of(settings, client, instances):
        names = ", ".join(sorted(member.client_id for member in earlier))
        if not seen:
            report(f"the group has {names} already: waiting until {'they leave' if ', ' in names else 'it leaves'}")
        for member in earlier:
            first = seen.setdefault(member.member_id, member.last_heard_ms or 0)
            if (member.last_heard_ms or 0) - first >= ALIVE_MS:
                raise InputError(
                    f"its instances run already, started by another program ({names}): stop that one first, "
                    "or give this application another application.id",
                    settings.application.id,
                )
        time.sleep(POLL_INTERVAL_S)


def _instances_of(settings: InstanceSettings, client: CoordinatorClient, instances: int) -> list[MemberView]:
    name = re.compile(rf"{re.escape(settings.members)}-p(\d+)-t\d+")
    return [
        member
        for member in group_view(client, settings.application.id).members
        if (found := name.fullmatch(member.client_id)) is not None and int(found[1]) < instances
    ]
