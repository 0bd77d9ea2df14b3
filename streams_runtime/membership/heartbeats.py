"""The heartbeats of one member, sent on a schedule of their own. Source: `AbstractCoordinator.HeartbeatThread`."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Self

from assignor.types import TaskId
from streams_runtime.membership.coordinator_client import CoordinatorClient, HeartbeatReply
from streams_runtime.membership.coordinator_errors import CoordinatorUnavailable
from streams_runtime.membership.group_standing import GroupStanding, PendingHeartbeat
from streams_runtime.membership.member_settings import MemberSettings
from streams_runtime.membership.task_holder import TaskHolder

SHORTEST_TIMEOUT_S = 0.5
LONGEST_TIMEOUT_S = 5.0


class Heartbeats:
    """A thread that sends heartbeats as long as the `with` block runs."""

    def __init__(
        self, client: CoordinatorClient, settings: MemberSettings, standing: GroupStanding, holder: TaskHolder
    ) -> None:
        self._client = client
        self._settings = settings
        self._standing = standing
        self._holder = holder
        self._reported: Mapping[TaskId, int] | None = None
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._loop, name=f"heartbeat-{settings.client_id}", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _loop(self) -> None:
        while not self._ended.wait(self._settings.heartbeat_interval_s):
            heartbeat = self._standing.next_heartbeat()
            if heartbeat is None:
                continue
            try:
                self._standing.hear(heartbeat, self._send(heartbeat))
            except CoordinatorUnavailable:
                continue  # the next heartbeat asks again
            except Exception as error:  # the holder's errors, too: without heartbeats the group would evict the member
                self._standing.hear(heartbeat, error)

    def _send(self, heartbeat: PendingHeartbeat) -> HeartbeatReply:
        sums = self._holder.offset_sums()
        reply = self._client.heartbeat(
            self._settings.group_id,
            heartbeat.member_id,
            heartbeat.generation_id,
            task_offset_sums=None if sums == self._reported else sums,
            # when an answer is lost, there is still time for another heartbeat within the session
            timeout_s=min(max(self._settings.session_timeout_s / 2, SHORTEST_TIMEOUT_S), LONGEST_TIMEOUT_S),
        )
        self._reported = sums
        return reply
