"""What an application declares: everything that the leader needs, except what it finds in the log."""

from pathlib import Path

import pytest

from assignor.configs import AssignmentConfigs
from assignor.errors import InputError
from assignor.recording import parse_rebalance_input
from streams_runtime.instance.application import Application, group_body
from tests.spark_jobs.small_application import address, small_application


def test_should_declare_topology_configs_and_where_the_log_is(tmp_path: Path) -> None:
    application = small_application(
        "shop", tmp_path, num_standby_replicas=2, rack_aware_assignment_tags="host,executor", topic_segment_bytes="1"
    )
    body = group_body(application)
    cluster = body.pop("cluster")
    assert cluster == {"provider": "embedded", "bootstrap.servers": address(tmp_path)}
    assert body.keys() == {"assignor", "configs", "application_id", "topology"}
    without_cluster: dict[str, object] = {
        "cluster": {"brokers": [], "topics": {}},
        "existing_internal_topics": {},
        "changelog_end_offsets": {},
        "committed_offsets": {},
        "members": {},
        "leader_process_id": None,
    }
    declared = parse_rebalance_input({**body, **without_cluster})
    assert declared.assignor == "HighAvailabilityTaskAssignor"
    assert declared.application_id == "shop"
    assert declared.topology == application.group_topology()
    assert declared.configs == AssignmentConfigs(
        num_standby_replicas=2, rack_aware_assignment_tags=("host", "executor"), topic_configs={"segment.bytes": "1"}
    )


@pytest.mark.parametrize(
    "servers,message",
    [
        ("embedded:records", "'embedded:records' is relative"),
        ("memory:records", "in the memory of one process"),
        ("localhost", "must be 'host:port,...' of Kafka"),
    ],
)
def test_should_refuse_a_log_that_other_processes_cannot_find(tmp_path: Path, servers: str, message: str) -> None:
    topology = small_application("shop", tmp_path).topology
    application = Application(topology, {"application.id": "shop", "bootstrap.servers": servers})
    with pytest.raises(InputError, match=rf"bootstrap\.servers: .*{message}"):
        group_body(application)
