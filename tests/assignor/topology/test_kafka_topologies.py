"""Every topology that Kafka built, built here: the same numbers, names, orders, texts, tasks, topics and refusals."""

from tests.assignor.topology.kafka_topologies import kafka_topologies, output_of


def test_should_equal_kafka_for_every_topology_it_built() -> None:
    cases = list(kafka_topologies())
    different = [case.id for case in cases if _comparable(output_of(case)) != _comparable(case.output)]

    assert different == []
    assert len(cases) == 450


def test_should_have_seen_every_way_to_fail() -> None:
    errors = [case.output["error"] for case in kafka_topologies() if case.output["error"] is not None]

    assert {error.split(":")[0] for error in errors} == {
        "TopologyException",
        "TaskAssignmentException",
        "MissingSourceTopicException",
    }


def _comparable(output: dict[str, object]) -> object:
    """Of an error: its class, and at which call it was thrown."""
    return output if output["error"] is None else (str(output["error"]).split(":")[0], output["step"])
