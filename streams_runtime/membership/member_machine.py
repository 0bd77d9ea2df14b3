"""The group protocol of one member, as a pure state machine. The inputs are events and times. The outputs are calls,
orders and timers.

The phases of a member follow each other in this order:

    NEW -> PREPARING -> JOINING -> AWAITING -> FETCHING -> CHANGING -> HOLDING -> PREPARING -> ...
                                             any of these -> LOSING -> PREPARING, or LEAVING
                                             any of these -> CLOSING -> LEAVING -> ENDED

The rules are those of Kafka's cooperative protocol (KIP-429), except where noted:
- The member keeps working during a rebalance. After a new assignment, the member first gives up the tasks that are no
  longer assigned, and then starts the new tasks. If the member has given up active tasks, it rejoins at once, so that
  these tasks can be assigned to other members.
- After UNKNOWN_MEMBER_ID and ILLEGAL_GENERATION, the member drops all tasks and joins again. After
  REBALANCE_IN_PROGRESS, the member keeps working and rejoins. FENCED_INSTANCE_ID and FENCED_MEMBER_EPOCH mean that a
  newer incarnation has replaced the member. After FENCED_INSTANCE_ID and FENCED_MEMBER_EPOCH, the member drops all
  tasks and ends. Every other error code of a refusal also ends the member.
- If the task holder finds that its tasks were assigned to another thread, it drops these tasks without an order and
  reports the loss. After the task holder has reported a loss, the member joins again without owned partitions. The task
  holder may also ask for a rebalance, or for the end of the whole application.
- An assignment with an error code ends the member, as it ends a Kafka Streams instance. There is one exception: if
  source topics are missing and another rebalance follows, the member gives up its tasks and waits for this rebalance.
- If the coordinator cannot be reached, the member keeps its tasks and repeats its call. A repeated call has the same
  bytes, and a repeated first join has the same `join_id`. So the coordinator recognises a repeated join.
- The machine ignores outdated answers. For example, a reply asks for a rejoin, but the member has joined since the
  coordinator sent the reply. The machine recognises an outdated reply by its earlier generation. The machine ignores
  the refusal of a heartbeat if the member's epoch has changed since the heartbeat was sent. For UNKNOWN_MEMBER_ID, the
  machine does not compare epochs: it acts if the member still has the refused id.

The machine computes the pauses between repeated calls, but the caller handles the time-outs of calls. The caller passes
all needed random numbers to the machine, as parts of events. Source:
`AbstractCoordinator`, `ConsumerCoordinator.onJoinPrepare`, `onJoinComplete`, `HeartbeatResponseHandler`;
`StreamsPartitionAssignor.onAssignment`. Differs from Kafka: the coordinator answers a join at once. The coordinator
reports in the reply to a later heartbeat that the assignment is ready.
"""

from collections.abc import Mapping

from assignor.types import AssignorErrorCode, TaskId
from streams_runtime.common.task_flow import TaskFlow
from streams_runtime.membership import calls
from streams_runtime.membership import member_events as events
from streams_runtime.membership.member_state import (
    BEFORE_FIRST_ASSIGNMENT,
    CallAnswer,
    Departure,
    Outstanding,
    PendingNews,
    Phase,
    Standing,
)
from streams_runtime.membership.member_subscription import OwnedTasks, ReceivedAssignment, SubscriptionWriter

STABLE = "Stable"


class MemberMachine:
    """The state machine of one member. The caller passes each event to `handle`, and carries out the returned effects
    in order. `join_ids`: a prefix for the join ids of the member. The prefix is unique in the group.
    """

    def __init__(self, settings: calls.MemberSettings, writer: SubscriptionWriter, join_ids: str) -> None:
        self._settings = settings
        self._writer = writer
        self._join_ids = join_ids
        self.phase = Phase.NEW
        self._standing = Standing()
        self._news = PendingNews()
        self._outstanding = Outstanding()
        self._departure = Departure(self._standing, self._outstanding)
        self._owned = OwnedTasks()
        self._shutdown_requested = False
        self._request: calls.JoinRequest | None = None
        self._taking: ReceivedAssignment | None = None
        self._rejoins_after_change = False

    # --- State that callers read.

    @property
    def name(self) -> str:
        return self._settings.client_id

    @property
    def member_id(self) -> str | None:
        """The member id; None while the group does not know the member."""
        return self._standing.member_id

    @property
    def is_about_to_join(self) -> bool:
        """True if a join will soon be sent or answered. The answer to the join changes the content of the next
        heartbeat.
        """
        return self.phase is Phase.PREPARING or (self.phase is Phase.JOINING and self._outstanding.call_is_out)

    @property
    def sends_heartbeats(self) -> bool:
        """True from the answer to the first join until the member leaves."""
        return self._standing.member_id is not None and self.phase not in (Phase.LEAVING, Phase.ENDED)

    def heartbeat(self, offset_sums: Mapping[TaskId, int], flows: Mapping[TaskId, TaskFlow]) -> events.SentHeartbeat:
        """Returns the data about the member for the next heartbeat. Call this method only if `sends_heartbeats` is
        True. `offset_sums`, `flows`: the present offset sums and flows of the task holder.
        """
        return self._standing.heartbeat(offset_sums, flows)

    def accepts(self, reply: events.HeartbeatReplied) -> bool:
        """Returns True if the member can act on this reply now, or can ignore it. Returns False if the coordinator has
        to send the reply again.
        """
        return self._standing.counts(reply, self.phase)

    # --- events

    def handle(self, event: events.MemberEvent, now_ms: int) -> list[events.MemberEffect]:
        """Handles an event. Returns the effects that the caller has to carry out. `now_ms`: the time on any clock that
        never goes back.
        """
        self._outstanding.now_ms = now_ms
        if self.phase is not Phase.ENDED:
            self._take_in(event)
        return self._outstanding.taken()

    def _take_in(self, event: events.MemberEvent) -> None:
        match event:
            case events.Started():
                if self.phase is Phase.NEW:
                    self._prepare()
            case (
                events.JoinReplied()
                | events.FetchReplied()
                | events.LeaveReplied()
                | events.CallRefused()
                | events.CallUnanswered()
            ):
                if self._outstanding.takes_answer(event):
                    self._answered(event)
            case events.HeartbeatReplied():
                self._on_heartbeat_reply(event)
            case events.OrderDone(number, offset_sums):
                if self._outstanding.is_last_order(number):
                    self._carried_out(offset_sums)
            case events.OrderFailed(number, error):
                if self._outstanding.is_present_order(number):
                    self._fail(error)
            case events.MemberFailed(error):
                self._fail(error)
            case events.TimerDue(timer):
                if self._outstanding.takes_timer(timer):
                    self._waited()
            case events.CloseAsked(membership, failure):
                self._departure.holder_failed(failure)
                self._asked_to_close(membership)
            case events.TasksLost() | events.RejoinAsked() | events.ShutdownAsked():
                self._asked_by_holder(event)

    def _asked_by_holder(self, event: events.TasksLost | events.RejoinAsked | events.ShutdownAsked) -> None:
        match event:
            case events.TasksLost(reason):
                if self.phase is not Phase.LOSING:
                    self._news.lost = reason
            case events.RejoinAsked():
                self._news.rejoin_asked = True
            case events.ShutdownAsked(failure):
                self._departure.holder_failed(failure)
                self._shutdown_requested = True
                self._news.rejoin_asked = True
        self._act_when_free()

    def _asked_to_close(self, membership: events.GroupMembershipOperation) -> None:
        if self.phase is Phase.NEW:
            self._departure.end = events.MemberEnd.LEFT
            self.phase = self._departure.finish()
        elif self.phase not in (Phase.CLOSING, Phase.LEAVING) and not self._departure.is_decided:
            self._departure.membership = membership
            self._close(events.MemberEnd.LEFT)

    # --- joining

    def _prepare(self) -> None:
        self.phase = Phase.PREPARING
        self._outstanding.give(events.StartRebalance())

    def _join(self, offset_sums: Mapping[TaskId, int]) -> None:
        """Write the subscription and send the join. The join fulfils all earlier requests of the task holder for a
        rebalance.
        """
        self._news.rejoin_asked = False
        subscription = self._writer.next_subscription(
            offset_sums,
            self._owned.partitions,
            self._owned.generation_id,
            AssignorErrorCode.SHUTDOWN_REQUESTED if self._shutdown_requested else AssignorErrorCode.NONE,
        )
        self._request = self._standing.join_request(self._settings, self._join_ids, subscription)
        self._standing.joins(offset_sums)
        self._outstanding.begin_another_call()
        self.phase = Phase.JOINING
        self._outstanding.join(self._request)

    def _joined(self, reply: calls.JoinReply) -> None:
        standing, news = self._standing, self._news
        if standing.definition not in (None, reply.definition) and reply.definition is not None:
            self._outstanding.want(events.GroupRedeclared(reply.definition))
        standing.joined(reply)
        # an earlier refusal of a heartbeat is outdated, because the group has now accepted the member
        news.refused = None
        self._request = None
        if reply.state == STABLE and not self._has_news():
            # the assignment may already be ready if a static member was restarted or the join was repeated
            self._fetch()
        else:
            self._await_assignment()

    # --- Methods for the assignment.

    def _fetch(self) -> None:
        standing = self._standing
        assert standing.member_id is not None, "it has joined"
        self.phase = Phase.FETCHING
        # If the fetch fails, replies to later heartbeats contain this generation again.
        self._news.assignment_generation = BEFORE_FIRST_ASSIGNMENT
        self._outstanding.fetch(standing.member_id, standing.awaited)

    def _fetched(self, fetched: calls.FetchedAssignment | None) -> None:
        self._outstanding.begin_another_call()
        if self._news.are_serious():
            self._act()
        elif fetched is not None:
            self._read(fetched)
        else:
            self._await_assignment()

    def _await_assignment(self) -> None:
        """Wait for the assignment. If an assignment is ready, the member fetches it before it rejoins. The reason is
        that other members may wait for tasks that this member has to give up.

        If a member is slow, every reply may ask for a rejoin and also report a ready assignment. If a slow member
        always rejoined first, it would never give up these tasks.
        """
        self.phase = Phase.AWAITING
        if self._news.are_serious():
            self._act()
        elif self._news.assignment_generation >= self._standing.awaited:
            self._fetch()
        elif self._has_news():
            self._act()

    def _read(self, fetched: calls.FetchedAssignment) -> None:
        assert self._standing.member_id is not None, "it has joined"
        try:
            received = self._writer.read(fetched.assignment, self._standing.member_id, fetched.generation_id)
        except Exception as error:  # the bytes cannot be decoded, or the assignment contradicts itself
            self._fail(error)
            return
        code = received.error_code
        if code is AssignorErrorCode.INCOMPLETE_SOURCE_TOPIC_METADATA and fetched.followup:
            # Differs from Kafka: the coordinator watches the topics and starts a rebalance. In Kafka, the application
            # ends.
            self._outstanding.want(events.MissingTopics(self._why(fetched, code)))
            self._change(received, rejoins=False)
        elif code is AssignorErrorCode.SHUTDOWN_REQUESTED:
            self._close(events.MemberEnd.SHUTDOWN_REQUESTED)
        elif code is not AssignorErrorCode.NONE:
            self._fail(events.AssignmentFailed(f"the group's leader answered {code.name}: {self._why(fetched, code)}"))
        elif (foreign := self._writer.foreign_task(received.held)) is not None:
            self._fail(
                events.AssignmentFailed(f"the group runs another topology than this member: {foreign}{self._whose()}")
            )
        else:
            self._change(received, rejoins=fetched.followup and received.rejoin_now)

    def _why(self, fetched: calls.FetchedAssignment, code: AssignorErrorCode) -> str:
        if code is AssignorErrorCode.INCOMPLETE_SOURCE_TOPIC_METADATA:
            cause = fetched.error or "Source topics are missing."
            return f"{cause} The topology reads {', '.join(self._writer.topics)}"
        if fetched.error is not None:
            return f"{fetched.error} `assignor groups describe` of the group says what to do{self._whose()}"
        return f"the group cannot run as it is declared{self._whose()}"

    def _whose(self) -> str:
        definition = self._standing.definition
        return "" if definition is None else f" (its definition is {definition})"

    def _change(self, received: ReceivedAssignment, *, rejoins: bool) -> None:
        """Order the task holder to give up tasks that are no longer assigned, and then to start the assigned tasks."""
        self.phase = Phase.CHANGING
        self._taking = received
        self._rejoins_after_change = rejoins
        if received.error_code is AssignorErrorCode.NONE:
            self._rejoins_after_change |= bool(self._owned.revoked_by(received))
        self._outstanding.give(*self._owned.orders_to_hold(received))

    def _changed(self) -> None:
        received, self._taking = self._taking, None
        assert received is not None, "it takes an assignment"
        self._owned = OwnedTasks.of(received)
        self._standing.works_by(received.held.generation_id)
        self.phase = Phase.HOLDING
        if self._rejoins_after_change or self._has_news():
            self._act()

    # --- Methods for heartbeats and other news.

    def _on_heartbeat_reply(self, reply: events.HeartbeatReplied) -> None:
        if reply.sent.member_id != self._standing.member_id:
            return
        if isinstance(reply.answer, calls.HeartbeatNews):
            self._standing.reported, self._standing.reported_flows = reply.sent.offset_sums, reply.sent.flows
            self._news.add(reply.answer, reply.generation_id)
        elif self._standing.counts(reply, self.phase):
            self._news.add_refusal(reply.answer)
        else:
            return
        self._act_when_free()

    def _has_news(self) -> bool:
        return self._news.call_for_action(self._standing.awaited)

    def _act_when_free(self) -> None:
        """Act on news. If an order or a call has no answer yet, does nothing: the machine acts on the news after the
        answer.
        """
        if self.phase is Phase.AWAITING:
            self._await_assignment()
        elif self.phase is Phase.HOLDING:
            if self._has_news():
                self._act()
        elif self._outstanding.call_is_out:
            return
        elif self.phase is Phase.FETCHING:
            if self._has_news():
                self._act()
        elif self.phase is Phase.JOINING:
            serious = self._news.stop or self._news.lost is not None
            # the join is not repeated, because the member has to act on the news first
            if serious and self._standing.member_id is not None:
                self._act()

    def _act(self) -> None:
        """Act on the most serious news. If no news is serious, the member rejoins."""
        news = self._news
        if news.refused is not None:
            self._refused(news.refused)
        elif news.stop:
            self._close(events.MemberEnd.STOPPED)
        elif news.lost is not None:
            reason = news.lost
            self._standing.forget_generation()
            self._lose(reason)
        else:
            self._prepare()

    def _refused(self, error: calls.CoordinatorError) -> None:
        self._news.refused = None
        match error:
            case calls.UnknownMemberId():
                self._forget_member()
                self._lose(error.code)
            case calls.IllegalGeneration():
                self._standing.forget_generation()
                self._lose(error.code)
            case calls.RebalanceInProgress():
                self._prepare()  # the member keeps its tasks
            case calls.FencedInstanceId() | calls.FencedMemberEpoch():
                self._forget_member()  # a newer incarnation has replaced this member
                self._departure.end = events.MemberEnd.FENCED
                self._lose(error.code)
            case _:
                self._fail(error)

    def _forget_member(self) -> None:
        self._standing.forget_member()
        self._news.forget_member()

    # --- Methods for answers and for pauses between calls.

    def _answered(self, answer: CallAnswer) -> None:
        if self.phase in (Phase.CLOSING, Phase.LEAVING):
            self.phase = self._departure.answered(answer, self.phase)
            return
        match answer:
            case events.JoinReplied(_, reply):
                self._joined(reply)
            case events.FetchReplied(_, fetched):
                self._fetched(fetched)
            case events.CallRefused(_, error):
                self._refused(error)
            case events.CallUnanswered():
                self._outstanding.pause(answer)
                self._act_when_free()

    def _waited(self) -> None:
        if self.phase is Phase.JOINING:
            assert self._request is not None, "a subscription has been written"
            self._outstanding.join(self._request)
        elif self.phase is Phase.FETCHING:
            self._fetch_again()
        elif self.phase is Phase.LEAVING:
            self.phase = self._departure.finish()

    def _fetch_again(self) -> None:
        if self._has_news():
            self._act()
        else:
            self._fetch()

    def _carried_out(self, offset_sums: Mapping[TaskId, int]) -> None:
        """Called after the task holder has carried out the last of several orders. The task holder carries out orders
        in sequence, so all earlier orders are done as well.
        """
        match self.phase:
            case Phase.PREPARING:
                if self._news.are_serious():
                    self._act()
                else:
                    self._join(offset_sums)
            case Phase.CHANGING:
                self._changed()
            case Phase.LOSING:
                if self._departure.is_decided:
                    self.phase = self._departure.leave()
                else:
                    self._prepare()
            case Phase.CLOSING:
                self.phase = self._departure.leave()

    # --- Methods that give up all tasks.

    def _lose(self, reason: str) -> None:
        self._news.lost = None
        self._owned = OwnedTasks()
        self._outstanding.give_up_call()
        self.phase = Phase.LOSING
        self._outstanding.give(events.LoseTasks(reason))

    def _fail(self, error: BaseException) -> None:
        if self.phase is Phase.LEAVING:
            return
        self._departure.failed(error)
        if self.phase in (Phase.LOSING, Phase.CLOSING):
            self.phase = self._departure.leave()
        else:
            self._lose(f"the member failed: {error!r}")

    def _close(self, end: events.MemberEnd) -> None:
        self._departure.end = end
        if self._standing.member_id is not None:
            self._outstanding.give_up_call()
        self.phase = Phase.CLOSING
        self._outstanding.give(events.CloseTasks())
