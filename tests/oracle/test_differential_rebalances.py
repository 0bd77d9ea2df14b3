"""Freshly generated rebalances, decided by Kafka Streams' own StreamsPartitionAssignor and here, bytes to bytes; and
placement problems, solved by Kafka's own task assignors and by those here. The classes of every release are asked.
"""

import base64
from functools import partial
from typing import Any

import pytest

from assignor.configs import AssignmentConfigs
from assignor.protocol.assignment_info import decode_assignment_info
from assignor.protocol.consumer_protocol import decode_assignment
from assignor.protocol.versions import LATEST_SUPPORTED_VERSION
from tests.oracle.differential_run import cases_of_this_run, fresh_cases
from tests.oracle.generated_configs import Groups
from tests.oracle.generated_placements import placement_history
from tests.oracle.generated_rebalances import rebalance_history
from tests.told import Tell

pytestmark = pytest.mark.java


@pytest.mark.parametrize("groups", Groups)
def test_should_decide_fresh_rebalances_as_kafka_does(oracle_jars: str, tell: Tell, groups: Groups) -> None:
    with fresh_cases(groups.named("rebalances"), tell) as fresh:
        for line in fresh.histories(cases_of_this_run(), partial(rebalance_history, groups=groups)):
            fresh.compare(line)
            fresh.note_kind(
                line["input"]["assignor"], AssignmentConfigs.from_dotted(line["input"]["configs"]).rack_aware
            )
            fresh.features.update(_features(line["output"]))


@pytest.mark.parametrize("groups", Groups)
def test_should_place_the_tasks_of_fresh_problems_as_kafka_does(oracle_jars: str, tell: Tell, groups: Groups) -> None:
    with fresh_cases(groups.named("placements"), tell) as fresh:
        for line in fresh.histories(cases_of_this_run(), partial(placement_history, groups=groups)):
            fresh.compare(line)
            fresh.note_kind(line["assignor"], "partition_racks" in line)
            fresh.features["with a probing rebalance"] += line["output"]["probing_rebalance_needed"]


def _features(output: dict[str, Any]) -> list[str]:
    """For the reader of the figures: that a run had some of each."""
    features = []
    for raw in list(output["assignments"].values())[:1]:
        info = decode_assignment_info(decode_assignment(base64.b64decode(raw)).user_data or b"")
        features += [f"with error code {info.err_code}"] if info.err_code else []
        features += [f"in version {info.version}"] if info.version < LATEST_SUPPORTED_VERSION else []
    if output["error"] is not None:
        features.append(output["error"].partition(":")[0])
    if output["followup_rebalance"]:
        features.append("with a follow-up")
    if output["probing_rebalance_at_ms"] is not None:
        features.append("with a probing rebalance")
    if output["created_topics"]:
        features.append("that create topics")
    return features
