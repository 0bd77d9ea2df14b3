"""One run of `assignor lead`: connect, win the election, lead, and leave.

On a signal with a standby waiting, the process only resigns from the election, and the standby takes its place in the
group without a rebalance. Without a standby it leaves the group, so that a JVM member leads at once.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from assignor.errors import AssignorFault
from assignor.recording import is_class_path
from assignor.snapshot import RebalanceSnapshot
from coordinator_client.calls import CoordinatorAddress
from kafka_client.admin.cluster_admin import ClusterAdmin, first_contact
from kafka_client.errors import FencedInstance, KafkaRefused
from kafka_client.group_membership import GroupMembership, MembershipSettings
from kafka_client.settings.client_settings import ClientSettings
from kafka_groups.application_file import ApplicationFile
from kafka_groups.leader.definition import SeenTopics, changelogs_among, definition_of
from kafka_groups.leader.election import Election, LeadTaken
from kafka_groups.leader.lead_settings import LeadSettings, OwnSession
from kafka_groups.leader.leader import Leader
from kafka_groups.leader.own_member import PROTOCOL, PROTOCOL_TYPE
from kafka_groups.leader.rebalance_decider import LedRebalanceFailed, RebalanceDecider
from kafka_groups.leader.rebalance_records import RebalanceRecords
from kafka_groups.topology_facts import TopologyFacts
from rebalance_analysis.reading.own_assignors import load_own_assignor

_LONGEST_WAY_OUT_S = 10.0
_LONGEST_REPORT_S = 3.0


@dataclass(frozen=True, slots=True)
class LedApplication:
    """The application to lead. `configs`, `assignor`, `facts`: from the command line."""

    file: ApplicationFile
    configs: Mapping[str, object]
    assignor: str | None
    facts: TopologyFacts = field(default_factory=TopologyFacts)


@dataclass(frozen=True, slots=True)
class Reporting:
    """`output`: a file or `-`; `coordinator`: the service that shows the group. None for none."""

    output: str | None = None
    coordinator: CoordinatorAddress | None = None


async def lead_until_stopped(
    client: ClientSettings,
    settings: LeadSettings,
    application: LedApplication,
    reporting: Reporting,
    say: Callable[[str], None],
) -> None:
    """Lead until SIGTERM or SIGINT. Raises AssignorFault, whose message is one line for the user."""
    records = RebalanceRecords(reporting.output, reporting.coordinator, say)
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    async with ClusterAdmin(client) as admin:
        if not await first_contact(admin, client, stopped, say):
            return
        definition = await _definition(admin, settings, application, say)

        async def redefine() -> RebalanceSnapshot:
            return await _definition(admin, settings, application, lambda _: None)

        task_assignor = load_own_assignor(definition.assignor) if is_class_path(definition.assignor) else None
        work = RebalanceDecider(
            admin,
            definition,
            task_assignor,
            settings.retry_timeout_ms / 1000,
            say,
            redefine if application.file.topology is None else None,
        )
        session = OwnSession(settings.session_timeout_ms)
        member = MembershipSettings(
            settings.group,
            PROTOCOL_TYPE,
            PROTOCOL,
            session.in_group_ms(has_standby=False),
            settings.rebalance_timeout_ms,
            settings.group_instance_id,
        )
        async with (
            Election(client, settings.group, session, say) as election,
            GroupMembership(client, member) as membership,
        ):
            leader = Leader(
                settings,
                admin,
                membership,
                work,
                records,
                say,
                session_timeout_ms=lambda: session.in_group_ms(has_standby=election.has_standby),
            )
            await _Run(election, membership, leader, records, settings, say).until(stopped)


async def _definition(
    admin: ClusterAdmin, settings: LeadSettings, application: LedApplication, say: Callable[[str], None]
) -> RebalanceSnapshot:
    seen = SeenTopics({}, {})
    if application.file.topology is None:
        counts = {name: topic.partitions for name, topic in (await admin.topics()).items()}
        seen = SeenTopics(counts, await _changelog_configs(admin, changelogs_among(counts, settings.group), say))
    definition, assumptions = definition_of(
        application.file, settings.group, application.assignor, application.configs, seen, application.facts
    )
    for assumption in assumptions:
        say(f"topology: {assumption}")
    return definition


async def _changelog_configs(
    admin: ClusterAdmin, changelogs: Sequence[str], say: Callable[[str], None]
) -> Mapping[str, Mapping[str, str]]:
    """Empty if this user may not read them: the stores are then treated as if they had no changelog yet."""
    try:
        return await admin.topic_configs(changelogs, only_own=True)
    except KafkaRefused as error:
        say(f"topology: the configs of the changelogs cannot be read, grant DESCRIBE_CONFIGS: {error}")
        return {}


class _Run:
    def __init__(
        self,
        election: Election,
        membership: GroupMembership,
        leader: Leader,
        records: RebalanceRecords,
        settings: LeadSettings,
        say: Callable[[str], None],
    ) -> None:
        self._election = election
        self._membership = membership
        self._leader = leader
        self._records = records
        self._settings = settings
        self._say = say

    async def until(self, stopped: asyncio.Event) -> None:
        stop = asyncio.ensure_future(stopped.wait())
        work = asyncio.ensure_future(self._work())
        try:
            await asyncio.wait((stop, work), return_when=asyncio.FIRST_COMPLETED)
            if work.done():
                work.result()
        except LeadTaken:
            await self._resign()
            raise
        except FencedInstance as fence:
            await self._resign()
            raise LeadTaken(f"{fence}: it leads group {self._settings.group!r} now, and this process ends") from fence
        except LedRebalanceFailed as failure:
            await self._hand_back("the lead is handed back: a rebalance failed for too long")
            raise LedRebalanceFailed(
                f"{failure}; the lead is handed back to the application's own members", None
            ) from None
        except AssignorFault:
            await self._hand_back("the lead is handed back")
            raise
        finally:
            await _ended(stop, work)
        await self._stop()

    async def _work(self) -> None:
        await self._election.win(self._settings.stand_by)
        elected = asyncio.ensure_future(self._election.keep())
        leading = asyncio.ensure_future(self._leader.lead())
        reporting = asyncio.ensure_future(self._records.report())
        try:
            done, _ = await asyncio.wait((elected, leading), return_when=asyncio.FIRST_COMPLETED)
            (leading if leading in done else elected).result()
        finally:
            await _ended(elected, leading, reporting)

    async def _stop(self) -> None:
        if self._election.has_standby:
            self._say("stopping: the standby takes over")
            await self._resign()
        else:
            await self._hand_back("assignor lead was stopped")
            self._say(f"stopped: left group {self._settings.group!r}; one of its own members leads it from now on")
        await self._records.report_rest(_LONGEST_REPORT_S)

    async def _hand_back(self, reason: str) -> None:
        await self._try(self._membership.leave(reason))
        await self._resign()

    async def _resign(self) -> None:
        await self._try(self._election.resign())

    async def _try(self, leaving: Coroutine[Any, Any, None]) -> None:
        """Run one step of leaving, for at most 10 s. When the brokers are down, the session expires instead."""
        try:
            async with asyncio.timeout(_LONGEST_WAY_OUT_S):
                await leaving
        except (AssignorFault, TimeoutError) as error:
            self._say(f"could not leave: {error or 'no answer'}; the session will expire")


async def _ended(*tasks: asyncio.Future[Any]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
