"""`assignor lead` in this process' event loop, on a small application: one subtopology that counts by key."""

import asyncio
import contextlib
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from assignor.recording.fields import document_of_line
from assignor.topology.group_topology import GroupTopology, Subtopology, SubtopologyStore
from assignor.topology.internal_topics import CreatedTopic
from kafka_client.admin.cluster_admin import ClusterAdmin
from kafka_client.settings.client_settings import client_settings
from kafka_groups.application import ApplicationFile
from kafka_groups.leader.lead_settings import LeadSettings
from kafka_groups.leader.leading import LedApplication, lead_until_stopped
from tests.kafka_groups.leader.streams_members import StreamsMember


@dataclass
class LedGroup:
    """`reports`: every line of progress. `rebalances`: the file of led rebalances. `pattern`: of the source topics; the
    topology is then given as the text of a description.
    """

    address: str
    directory: Path
    stateful: bool = True
    pattern: str | None = None
    name: str = field(default_factory=lambda: f"led-{uuid.uuid4().hex[:8]}")
    settings: dict[str, object] = field(default_factory=dict)
    reports: list[str] = field(default_factory=list)
    _leads: list[asyncio.Task[None]] = field(default_factory=list)
    _report_arrived: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def source(self) -> str:
        return f"{self.name}-in"

    @property
    def changelog(self) -> str:
        return f"{self.name}-store-changelog"

    @property
    def output(self) -> Path:
        return self.directory / f"{self.name}.jsonl"

    @property
    def rebalances(self) -> list[dict[str, Any]]:
        return [document_of_line(line) for line in self.output.read_bytes().splitlines()]

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        for lead in self._leads:
            lead.cancel()
        await asyncio.gather(*self._leads, return_exceptions=True)

    async def create_source(self) -> None:
        async with ClusterAdmin(client_settings(self.address)) as admin:
            await admin.create_topics({self.source: CreatedTopic(2, 1, {})})

    def lead(self, **settings: object) -> asyncio.Task[None]:
        """Start leading; what it raises is the task's. A cancelled one dies like a process: it does not leave."""
        stores = (SubtopologyStore("store", changelog_topic=self.changelog),) if self.stateful else ()
        topology = GroupTopology((Subtopology(0, (self.source,), stores=stores),))
        described = None
        if self.pattern is not None:
            source = f"Source: KSTREAM-SOURCE-0000000000 (topics: {self.pattern})\n      --> none"
            described = f"Topologies:\n   Sub-topology: 0\n    {source}\n"
        file = ApplicationFile("topology", topology if described is None else None, described, {}, None)
        application = LedApplication(file, {}, None)
        lead_settings = LeadSettings(
            self.name,
            f"{self.name}-assignor-leader",
            **{"session_timeout_ms": 6000, "metadata_max_age_ms": 100, **self.settings, **settings},  # type: ignore[arg-type]
        )
        task = asyncio.create_task(
            lead_until_stopped(
                client_settings(self.address), lead_settings, application, str(self.output), None, self._add_report
            )
        )
        self._leads.append(task)
        return task

    async def lead_alone(self, **settings: object) -> asyncio.Task[None]:
        """Make the source topic and start leading; returns when the group is led and has no other member yet."""
        await self.create_source()
        task = self.lead(**settings)
        await self.wait_until_reported("without members of the application")
        return task

    def _add_report(self, line: str) -> None:
        self.reports.append(line)
        self._report_arrived.set()

    def member(self, process: int, **more: object) -> StreamsMember:
        return StreamsMember(self.address, self.name, process, (self.source,), **more)  # type: ignore[arg-type]

    async def wait_until_reported(self, words: str, timeout_s: float = 15.0) -> str:
        """The first line with these words."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                while not any(words in line for line in self.reports):
                    self._report_arrived.clear()
                    await self._report_arrived.wait()
        lines = [line for line in self.reports if words in line]
        assert lines, f"no line with {words!r} within {timeout_s:g} s, but: {self.reports}"
        return lines[0]
