"""One member's side of the group protocol: join, take the assignment, hold its tasks, send heartbeats, rejoin, leave.

Rules, all of them Kafka's own for the cooperative protocol (KIP-429):
- The member keeps working through a rebalance. It gives up what the new assignment no longer has, then takes the rest.
  When it gave something up it rejoins at once, so that others can have it.
- Heartbeats are sent on a schedule of their own, also while the member waits for an assignment or works.
- UNKNOWN_MEMBER_ID and ILLEGAL_GENERATION: all tasks are lost, and the member joins again. REBALANCE_IN_PROGRESS: the
  member keeps working and rejoins. FENCED_INSTANCE_ID and FENCED_MEMBER_EPOCH: a newer incarnation has taken over; all
  tasks are lost, and the member ends.
- A holder that has dropped its tasks by itself (another thread had them already) reports it, and the member joins again
  without owned partitions. A holder may also ask for a rebalance, or for the end of the whole application.
- An error assignment ends the member, as it ends a Kafka Streams instance. One for missing source topics does not when
  the coordinator says that another rebalance follows by itself: then the member gives up its tasks and waits for it.
- A coordinator that cannot be reached takes nothing away: the member keeps its tasks and goes on asking, as a
  consumer does.

Source: `AbstractCoordinator`, `ConsumerCoordinator.onJoinPrepare`, `onJoinComplete`;
`StreamsPartitionAssignor.onAssignment`.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from assignor.errors import AssignorFault
from assignor.types import AssignorErrorCode, TaskId
from streams_runtime.membership.coordinator_client import (
    CoordinatorClient,
    FetchedAssignment,
    JoinRequest,
    Patience,
)
from streams_runtime.membership.coordinator_errors import (
    CoordinatorError,
    CoordinatorUnavailable,
    FencedInstanceId,
    FencedMemberEpoch,
    IllegalGeneration,
    RebalanceInProgress,
    UnknownMemberId,
)
from streams_runtime.membership.group_standing import GroupStanding
from streams_runtime.membership.heartbeats import Heartbeats
from streams_runtime.membership.member_settings import MemberSettings
from streams_runtime.membership.member_subscription import ReceivedAssignment, SubscriptionWriter
from streams_runtime.membership.task_holder import Partitions, TaskHolder

LONG_POLL_WAIT_MS = 1_000
"""How long the coordinator may hold one request for an assignment. Short, because `close` waits for the request."""

LEAVE_TIMEOUT_S = 2.0

_logger = logging.getLogger(__name__)


class MemberEnd(StrEnum):
    """Why a member has ended. LEFT: its owner closed it; STOPPED: the coordinator told it to end."""

    LEFT = "left"
    STOPPED = "stopped"
    FENCED = "fenced"
    SHUTDOWN_REQUESTED = "shutdown-requested"


class AssignmentFailed(AssignorFault):
    """The leader sent an error assignment: the group cannot run as it is declared (missing source topics, for
    example).
    """


@dataclass(slots=True)
class _Owned:
    """The active tasks that the member holds. Only its own thread changes them."""

    generation_id: int | None = None
    partitions: Partitions = field(default_factory=frozenset)
    tasks: Mapping[TaskId, Partitions] = field(default_factory=dict)

    def tasks_with(self, partitions: Partitions) -> frozenset[TaskId]:
        return frozenset(task for task, of_task in self.tasks.items() if of_task & partitions)


class GroupMember:
    """One member, run by one thread: `run` until it ends, `close` from any other thread."""

    def __init__(
        self, client: CoordinatorClient, settings: MemberSettings, writer: SubscriptionWriter, holder: TaskHolder
    ) -> None:
        self._client = client
        self._settings = settings
        self._writer = writer
        self._holder = holder
        self._owned = _Owned()
        self._standing = GroupStanding()
        self._closing = threading.Event()
        self._shutdown_requested = False
        self._holding = threading.RLock()  # between the member's thread and whoever closes it

    def run(self) -> MemberEnd:
        """Be a member until it is closed, stopped or fenced.

        Raises AssignmentFailed, CoordinatorError, and what the holder raises.
        """
        heartbeats = Heartbeats(self._client, self._settings, self._standing, self._holder)
        with heartbeats:
            try:
                return self._membership()
            except BaseException as fault:
                self._lose(f"the member failed: {fault!r}")
                raise
            finally:
                with self._holding:  # `close` may be closing the tasks right now, and leaves only after that
                    self._leave()

    def close(self) -> None:
        """Close all tasks in good order, leave the group, and make `run` return. Idempotent; from any thread."""
        with self._holding:
            if not self._closing.is_set():
                self._closing.set()
                self._holder.close()
        self._standing.wake()
        self._leave()

    def tasks_were_lost(self, reason: str) -> None:
        """The holder found that others have its tasks: call its `lost`, then join again owning nothing. Any thread.

        Source: `StreamThread.handleTaskMigrated`. Differs from Kafka: the member id stays.
        """
        self._standing.tasks_were_lost(reason)

    def request_rejoin(self) -> None:
        """Ask for a rebalance and keep everything meanwhile. Any thread. Source: `Consumer.enforceRebalance`."""
        self._standing.ask_to_rejoin()

    def request_shutdown(self) -> None:
        """Ask the leader to end every member of the group, this one included. Any thread. Source: KIP-671."""
        self._shutdown_requested = True
        self._standing.ask_to_rejoin()

    def _membership(self) -> MemberEnd:
        while True:
            end: MemberEnd | None = None
            try:
                end = self._one_rebalance()
            except (UnknownMemberId, IllegalGeneration) as error:
                self._lose(error.code)
                if isinstance(error, UnknownMemberId):
                    self._standing.forget_member()
                else:
                    self._standing.forget_generation()
            except RebalanceInProgress:
                pass  # keep working, and send the subscription again
            except (FencedInstanceId, FencedMemberEpoch) as error:
                self._lose(error.code)
                self._standing.forget_member()  # the newer incarnation has its id now
                end = MemberEnd.FENCED
            except CoordinatorUnavailable as error:  # the call has already been repeated, with pauses
                _logger.warning(
                    "member %s of group %s tries again: %s", self._settings.client_id, self._settings.group_id, error
                )
            if end is not None:
                return end
            if self._closing.is_set():
                return MemberEnd.LEFT

    def _one_rebalance(self) -> MemberEnd | None:
        """Send a subscription, take the assignment, and hold it until there is news. None: rejoin."""
        fetched = self._fetch(self._join())
        if fetched is None:
            return self._act_on_news()
        received = self._writer.read(fetched.assignment, self._standing.known_member_id, fetched.generation_id)
        if received.error_code is AssignorErrorCode.INCOMPLETE_SOURCE_TOPIC_METADATA and fetched.followup:
            return self._wait_for_topics(received)
        if received.error_code is not AssignorErrorCode.NONE:
            return self._end_by_error(received.error_code)
        gave_something_up = self._take(received)
        if not gave_something_up and not (fetched.followup and received.rejoin_now):
            self._standing.wait_for_news(self._closing)
        return self._act_on_news()

    def _join(self) -> int:
        """Send the subscription. Gives the generation to wait for."""
        self._holder.rebalance_started()
        offset_sums = self._holder.offset_sums()
        self._standing.joining()  # what the holder asks for from here on is not part of this subscription
        subscription = self._writer.next_subscription(
            offset_sums,
            self._owned.partitions,
            self._owned.generation_id,
            AssignorErrorCode.SHUTDOWN_REQUESTED if self._shutdown_requested else AssignorErrorCode.NONE,
        )
        joined = self._client.join(
            self._settings.group_id,
            JoinRequest(
                subscription,
                self._settings.session_timeout_ms,
                self._settings.rebalance_timeout_ms,
                self._standing.member_id,
                self._settings.group_instance_id,
                self._settings.incarnation,
                self._settings.client_id,
            ),
            patience=Patience(self._settings.session_timeout_s, self._closing),
        )
        self._standing.joined(joined.member_id)
        return joined.generation_id

    def _fetch(self, min_generation: int) -> FetchedAssignment | None:
        """Wait for the assignment. None when news came first."""
        while not self._closing.is_set() and not self._standing.has_news():
            with contextlib.suppress(CoordinatorUnavailable):  # an assignment is committed, so it survives a restart
                fetched = self._client.assignment(
                    self._settings.group_id,
                    self._standing.known_member_id,
                    min_generation=min_generation,
                    wait_ms=LONG_POLL_WAIT_MS,
                    patience=Patience(self._settings.session_timeout_s, self._closing),
                )
                if fetched is not None:
                    return fetched
        return None

    def _take(self, received: ReceivedAssignment) -> bool:
        """Give up what is no longer assigned, then hold the rest. True when something was given up."""
        revoked = self._owned.partitions - received.partitions
        with self._holding:
            if self._closing.is_set():
                return False
            if revoked:
                self._holder.revoke(self._owned.tasks_with(revoked))
            self._holder.assign(received.held)
            self._owned = _Owned(received.held.generation_id, received.partitions, received.held.active)
        self._standing.assigned(received.held.generation_id)
        return bool(revoked)

    def _act_on_news(self) -> MemberEnd | None:
        """None: rejoin. Raises the error that a heartbeat was answered with."""
        news = self._standing.take_news()
        if news.refused is not None:
            raise news.refused
        if news.stop:
            return self._end_in_good_order(MemberEnd.STOPPED)
        if news.lost is not None:
            self._lose(news.lost)
            self._standing.forget_generation()
        return None

    def _wait_for_topics(self, received: ReceivedAssignment) -> MemberEnd | None:
        """Differs from Kafka, where the application ends: here the coordinator watches the topics for its members."""
        _logger.warning(
            "member %s of group %s waits for missing source topics; the topology reads %s",
            self._settings.client_id,
            self._settings.group_id,
            ", ".join(self._writer.topics),
        )
        self._take(received)
        self._standing.wait_for_news(self._closing)
        return self._act_on_news()

    def _end_by_error(self, code: AssignorErrorCode) -> MemberEnd:
        if code is AssignorErrorCode.SHUTDOWN_REQUESTED:
            return self._end_in_good_order(MemberEnd.SHUTDOWN_REQUESTED)
        reason = "the group cannot run as it is declared"
        if code is AssignorErrorCode.INCOMPLETE_SOURCE_TOPIC_METADATA:
            reason = f"source topics are missing; the topology reads {', '.join(self._writer.topics)}"
        raise AssignmentFailed(f"the group's leader answered {code.name}: {reason}")

    def _end_in_good_order(self, end: MemberEnd) -> MemberEnd:
        with self._holding:
            if not self._closing.is_set():
                self._closing.set()
                self._holder.close()
        return end

    def _lose(self, reason: str) -> None:
        with self._holding:
            self._owned = _Owned()
            if not self._closing.is_set():
                self._holder.lost(reason)

    def _leave(self) -> None:
        member_id = self._standing.leaving()
        if member_id is not None:
            with contextlib.suppress(CoordinatorUnavailable, CoordinatorError):  # then the session timeout does it
                self._client.leave(self._settings.group_id, member_id, timeout_s=LEAVE_TIMEOUT_S)
