"""Runs `assignor lead` from its start to its stop. Defines the group, connects to Kafka, wins the election, leads the
group, and leaves it.

The group's definition comes from the application's file, the command line and the topics of the cluster. The command
line overrides the application's file. The text of `Topology#describe` lacks some facts, such as the kind of a store.
The configs of an existing changelog show the kind of its store. Command-line options (`TopologyFacts`) add facts that
the cluster does not show. Command-line options also override facts that the cluster shows.

If a signal stops this process and there is a standby, this process leaves the election group, but not the application's
group. The standby then replaces this process in the application's group, without a rebalance. Without a standby, this
process leaves the application's group, so that a JVM member leads it immediately.
"""

import asyncio
import signal
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any

from assignor.configs import KAFKA_VERSION, AssignmentConfigs
from assignor.configs.kafka_versions import VERSION_OF_NEW_GROUPS
from assignor.errors import AssignorFault, InputError
from assignor.pipeline.snapshot import RebalanceSnapshot
from assignor.recording import is_class_path
from assignor.recording.fields import as_assignor
from assignor.topology.cluster import Cluster
from coordinator_client.calls import CoordinatorAddress
from kafka_client.admin.cluster_admin import ClusterAdmin, first_contact
from kafka_client.errors import FencedInstance, KafkaRefused
from kafka_client.event_loop import first_of
from kafka_client.group_membership import GroupMembership, MembershipSettings
from kafka_client.settings.client_settings import ClientSettings
from kafka_groups.application import DEFAULT_ASSIGNOR, ApplicationFile, TopologyFacts
from kafka_groups.described.described_topology import topology_from_description
from kafka_groups.leader.election import Election, LeadTaken
from kafka_groups.leader.lead_settings import LeadSettings, OwnSession
from kafka_groups.leader.leader import Leader
from kafka_groups.leader.led_rebalance import PROTOCOL, PROTOCOL_TYPE
from kafka_groups.leader.rebalance_decider import LedRebalanceFailed, RebalanceDecider
from kafka_groups.leader.rebalance_records import RebalanceRecords
from rebalance_analysis.reading.own_assignors import load_own_assignor

_LONGEST_WAY_OUT_S = 10.0
_LONGEST_REPORT_S = 3.0
_STORE_ADVICE = (
    "say what each of these stores is before the application starts, so that its changelog is created as a JVM creates "
    "it: --store STORE=key-value, --store STORE=retention.ms:N (windowed) or --store STORE=history.retention.ms:N "
    "(versioned)"
)

ChangelogConfigs = Mapping[str, Mapping[str, str]]
"""For each changelog topic, the configs that are set on the topic. A changelog is left out if this user may not read
its configs.
"""


@dataclass(frozen=True, slots=True)
class LedApplication:
    """The application whose group is led. `file`: the content of the application file. The other fields come from the
    command line.
    """

    file: ApplicationFile
    configs: Mapping[str, object]
    assignor: str | None
    facts: TopologyFacts = field(default_factory=TopologyFacts)

    def definition(
        self, group: str, partition_counts: Mapping[str, int], changelog_configs: ChangelogConfigs
    ) -> tuple[RebalanceSnapshot, tuple[str, ...]]:
        """Returns the definition of the group, and messages for the user. The definition has no members and no cluster.
        The messages name the assumptions about the topology, and the options that replace these assumptions.

        `partition_counts`: the number of partitions of each topic of the cluster. Raises InputError.
        """
        newest = {KAFKA_VERSION: str(VERSION_OF_NEW_GROUPS)}
        placement = AssignmentConfigs.from_dotted({**newest, **self.file.configs, **self.configs}, "--config")
        topology = self.file.topology
        assumptions: tuple[str, ...] = ()
        if topology is not None:
            self.facts.check_unused(self.file.path)
        else:
            assert self.file.description is not None
            try:
                described = topology_from_description(
                    self.file.description,
                    group,
                    partition_counts,
                    stores=self.facts.stores,
                    copartition=self.facts.copartition,
                    changelog_configs=changelog_configs,
                    configs=placement,
                    creates_missing=True,
                )
            except InputError as error:
                raise InputError(str(error), self.file.path) from None
            topology, assumptions = described.topology, described.assumptions
            if described.stores_of_unknown_kind:
                assumptions = (*assumptions, _STORE_ADVICE)
        assignor = as_assignor(self.assignor or self.file.assignor or DEFAULT_ASSIGNOR, "--assignor")
        return RebalanceSnapshot(assignor, placement, group, topology, Cluster((), {}), {}), assumptions


def configs_from_options(options: list[str]) -> dict[str, str]:
    """Parses command-line options of the form `key=value`. Raises InputError."""
    configs: dict[str, str] = {}
    for option in options:
        key, separator, value = option.partition("=")
        if not separator or not key:
            raise InputError(f"must be key=value, not {option!r}", "--config")
        if key in configs:
            raise InputError(f"{key} is given twice", "--config")
        configs[key] = value
    return configs


async def lead_until_stopped(
    client: ClientSettings,
    settings: LeadSettings,
    application: LedApplication,
    output: str | None,
    coordinator: CoordinatorAddress | None,
    report: Callable[[str], None],
) -> None:
    """Leads the group until SIGTERM or SIGINT. `RebalanceRecords` describes `output` and `coordinator`. Raises
    AssignorFault. The message of the error is one line for the user.
    """
    records = RebalanceRecords(output, coordinator, report)
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    async with ClusterAdmin(client) as admin:
        if not await first_contact(admin, client, stopped, report):
            return
        definition = await _definition(admin, settings, application, report)

        async def redefine() -> RebalanceSnapshot:
            return await _definition(admin, settings, application, lambda _: None)

        work = RebalanceDecider(
            admin,
            definition,
            load_own_assignor(definition.assignor) if is_class_path(definition.assignor) else None,
            settings.retry_timeout_ms / 1000,
            report,
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
            Election(client, settings.group, session, report) as election,
            GroupMembership(client, member) as membership,
        ):

            def session_timeout_ms() -> int:
                return session.in_group_ms(has_standby=election.has_standby)

            leader = Leader(settings, admin, membership, work, records, report, session_timeout_ms)
            await _Run(election, membership, leader, records, settings, report).until(stopped)


async def _definition(
    admin: ClusterAdmin, settings: LeadSettings, application: LedApplication, report: Callable[[str], None]
) -> RebalanceSnapshot:
    counts: Mapping[str, int] = {}
    configs: ChangelogConfigs = {}
    if application.file.topology is None:
        counts = {name: topic.partitions for name, topic in (await admin.topics()).items()}
        changelogs = [name for name in counts if name.startswith(f"{settings.group}-") and name.endswith("-changelog")]
        try:
            configs = await admin.topic_configs(changelogs, only_own=True)
        # the configs cannot be read: treat each store as if its changelog did not exist yet
        except KafkaRefused as error:
            report(f"topology: the configs of the changelogs cannot be read, grant DESCRIBE_CONFIGS: {error}")
    definition, assumptions = application.definition(settings.group, counts, configs)
    for assumption in assumptions:
        report(f"topology: {assumption}")
    return definition


@dataclass(frozen=True, slots=True)
class _Run:
    election: Election
    membership: GroupMembership
    leader: Leader
    records: RebalanceRecords
    settings: LeadSettings
    report: Callable[[str], None]

    async def until(self, stopped: asyncio.Event) -> None:
        group = self.settings.group
        try:
            await first_of(self._work(), stopped.wait())
        except LeadTaken:
            await self._resign()
            raise
        except FencedInstance as fence:
            await self._resign()
            raise LeadTaken(f"{fence}: it leads group {group!r} now, and this process ends") from fence
        except LedRebalanceFailed as failure:
            await self._hand_back("the lead is handed back: a rebalance failed for too long")
            raise LedRebalanceFailed(
                f"{failure}; the lead is handed back to the application's own members", None
            ) from None
        except AssignorFault:
            await self._hand_back("the lead is handed back")
            raise
        if self.election.has_standby:
            self.report("stopping: the standby takes over")
            await self._resign()
        else:
            await self._hand_back("assignor lead was stopped")
            self.report(f"stopped: left group {group!r}; one of its own members leads it from now on")
        await self.records.send_remaining_reports(_LONGEST_REPORT_S)

    async def _work(self) -> None:
        await self.election.win(self.settings.stand_by)
        reporting = asyncio.ensure_future(self.records.send_reports())
        try:
            await first_of(self.leader.lead(), self.election.keep())
        finally:  # a separate asyncio task sends the reports, so an error while sending does not stop the leader
            reporting.cancel()
            await asyncio.gather(reporting, return_exceptions=True)

    async def _hand_back(self, reason: str) -> None:
        await self._try(self.membership.leave(reason))
        await self._resign()

    async def _resign(self) -> None:
        await self._try(self.election.resign())

    async def _try(self, leaving: Coroutine[Any, Any, None]) -> None:
        """Runs one step of leaving a group, for at most 10 s. If the step fails, only reports the failure, because the
        brokers remove the member when its session expires. `leaving`: the coroutine of this step.
        """
        try:
            async with asyncio.timeout(_LONGEST_WAY_OUT_S):
                await leaving
        except (AssignorFault, TimeoutError) as error:
            self.report(f"could not leave: {error or 'no answer'}; the session will expire")
