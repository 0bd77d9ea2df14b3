"""Internal topics have the configs that a JVM gives them, whoever creates them, and tell what their stores are.

One application with a store of each kind runs twice on one broker: led by its own JVM, and led from Python.
"""

import asyncio
import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from kafka_client.admin.cluster_admin import ClusterAdmin
from kafka_client.settings.client_settings import client_settings
from tests.oracle.assignor_process import AssignorProcess
from tests.oracle.broker import Broker
from tests.oracle.scenario_feed import create_topics
from tests.oracle.streams_app import StreamsInstance, topology_description

pytestmark = [pytest.mark.kafka, pytest.mark.long]

CONFIGS = {
    "topic.compression.type": "lz4",
    "topic.segment.bytes": "4194304",
    "windowstore.changelog.additional.retention.ms": "3600000",
}
STORES = {
    "windows": "retention.ms:7200000",
    "sessions": "retention.ms:420000",
    "versions": "history.retention.ms:600000",
    "counts": "key-value",
    "pairs-this-join-store": "retention.ms:420000",
    "pairs-outer-other-join-store": "retention.ms:420000",
}
_DOUBTS = ("not known which they are", "windows of joins")


def test_should_create_topics_as_a_jvm_does_and_know_stores_by_changelogs(kafka_broker: Broker, tmp_path: Path) -> None:
    address = kafka_broker.bootstrap_servers
    topics = {"app.input": "stores-in", "app.output": "stores-out"}
    create_topics(address, {"stores-in": 2, "stores-out": 1})
    topology = tmp_path / "topology.txt"
    topology.write_text(topology_description("every-store", tmp_path / "topology", topics))

    def lead(group: str, *more: str) -> AssignorProcess:
        arguments = ["lead", "--bootstrap-server", address, "--group", group, "--topology", str(topology)]
        for key, value in {**CONFIGS, "topology.optimization": "none"}.items():
            arguments += ["--config", f"{key}={value}"]
        return AssignorProcess(f"{group}-{len(more)}", [*arguments, *more], tmp_path).start()

    def run(group: str) -> dict[str, dict[str, str]]:
        instance = StreamsInstance(
            address, group, tmp_path / f"{group}-jvm", topology="every-store", configs={**CONFIGS, **topics}
        )
        try:
            instance.start().wait_for_state("RUNNING")
            instance.leave()
        finally:
            instance.kill()
        return asyncio.run(_internal_topics(address, group))

    by_jvm = run("stores-own")
    assert len(by_jvm) == len(STORES) + 2
    told = [part for store, what in STORES.items() for part in ("--store", f"{store}={what}")]
    leads = [lead("stores-led", *told)]
    try:
        leads[0].wait_for_message("without members")
        by_lead = run("stores-led")
        assert leads[0].terminate() == 0
        assert "8 internal topics created" in leads[0].messages()
        assert by_lead == {**by_jvm, "counts-changelog": {**by_jvm["counts-changelog"], "segment.bytes": "4194304"}}

        # what only the code of the application says (withLoggingEnabled) shows in its changelog as well
        leads.append(lead("stores-own"))
        leads[1].wait_for_message("without members")
        asyncio.run(_delete(address, "stores-own", by_jvm))
        assert run("stores-own") == by_jvm
        assert "8 internal topics created" in leads[1].messages()
        assert _in_doubt(leads[1].messages()) == []
        assert leads[1].terminate() == 0

        leads.append(lead("stores-new"))
        leads[2].wait_for_message("without members")
        assert _in_doubt(leads[2].messages()) == sorted(STORES)
    finally:
        for process in leads:
            process.kill()


def _in_doubt(output: str) -> list[str]:
    """The stores that were named."""
    lines = [line for line in output.splitlines() if any(words in line for words in _DOUBTS)]
    return sorted(store for line in lines for store in re.findall(r"(\S+) \([a-z -]+", line))


async def _internal_topics(address: str, group: str) -> dict[str, dict[str, str]]:
    """Without the group's prefix, each with the configs that are set on it."""
    async with ClusterAdmin(client_settings(address)) as admin:
        names = [name for name in await admin.topics() if name.startswith(f"{group}-")]
        configs = await admin.topic_configs(names, only_own=True)
    return {name.removeprefix(f"{group}-"): dict(sorted(own.items())) for name, own in configs.items()}


async def _delete(address: str, group: str, topics: Mapping[str, object]) -> None:
    async with ClusterAdmin(client_settings(address)) as admin:
        await admin.delete_topics([f"{group}-{name}" for name in topics])
