"""The settings from options of `assignor lead` and `assignor record`, without a command line and without Kafka."""

from __future__ import annotations

from pathlib import Path

import pytest

from assignor.errors import InputError
from kafka_groups.leader.lead_command import LeadOptions
from kafka_groups.recorder.following import RecordingLimits
from kafka_groups.recorder.record_command import RecordOptions

BROKER = "127.0.0.1:9092"


def test_should_lead_with_the_defaults_of_a_consumer(tmp_path: Path) -> None:
    options = LeadOptions(BROKER, "orders", tmp_path / "topology.txt")

    settings = options.settings()

    assert (settings.group, settings.group_instance_id) == ("orders", "orders-assignor-leader")
    assert (settings.session_timeout_ms, settings.retry_timeout_ms) == (None, 120_000)
    assert (settings.stand_by, settings.join_anyway, settings.wait) == (False, False, False)
    assert options.client().addresses == (("127.0.0.1", 9092),)


def test_should_put_the_command_line_before_the_applications_properties(tmp_path: Path) -> None:
    topology, properties = tmp_path / "topology.txt", tmp_path / "app.properties"
    topology.write_text("Topologies:\n")
    properties.write_text("num.standby.replicas=2\nmax.warmup.replicas=4\nbootstrap.servers=elsewhere:1\n")
    options = LeadOptions(BROKER, "orders", topology, ["num.standby.replicas=1"], properties)

    application = options.application()

    assert application.configs == {"num.standby.replicas": "1", "max.warmup.replicas": "4"}
    assert (application.assignor, application.file.description) == (None, "Topologies:\n")


def test_should_refuse_a_standby_that_joins_anyway(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="--join-anyway: does not go with --standby"):
        LeadOptions(BROKER, "g", tmp_path, standby=True, join_anyway=True)


def test_should_record_as_the_options_say(tmp_path: Path) -> None:
    options = RecordOptions(
        BROKER, ["orders"], tmp_path / "o.jsonl", once=True, until_generations=3, for_seconds=2.0, look_every=0.1
    )

    following = options.following()

    try:
        assert [choices.group for choices in following.groups] == ["orders"]
        assert following.limits == RecordingLimits(3, 2.0, at_end=True)
        assert (following.from_start, following.poll_interval_s, following.coordinator) == (False, 0.1, None)
    finally:
        following.output.close()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "--bootstrap-server: is missing"),
        ({"from_log": "app.log", "bootstrap_server": BROKER}, "--from-log: reads a log alone"),
        ({"from_log": "app.log", "group": ["g"]}, "--from-log: reads a log alone"),
    ],
)
def test_should_refuse_options_that_do_not_go_together(options: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        RecordOptions(**options)  # type: ignore[arg-type]
