"""What set a round off: read from two rounds in a row, on recordings of a real Kafka Streams group."""

from typing import Any

import pytest

from assignor.types import ProcessId
from rebalance_analysis.history import Trigger, TriggerKind, group_history
from tests.rebalance_analysis.history.histories import (
    past_rebalances,
    recorded,
    short,
    with_info,
    with_input,
    without_members,
)

STATIC = ("inst-b-1", "inst-b-2")
NEW_ID = "00000000-0000-4000-8000-00000000000b"


def set_off(lines: list[dict[str, Any]]) -> list[tuple[Trigger, ...]]:
    return [each.facts.triggers for each in group_history(past_rebalances(lines)).rebalances]


def kinds(triggers: tuple[Trigger, ...]) -> list[TriggerKind]:
    return [trigger.kind for trigger in triggers]


class TestRecordedGroups:
    def test_should_see_processes_come_and_go_and_follow_ups_between(self) -> None:
        told = set_off(recorded("threads2"))
        assert [kinds(triggers) for triggers in told] == [
            [TriggerKind.FIRST],
            [TriggerKind.CREATED],
            [TriggerKind.JOINED],
            [TriggerKind.FOLLOW_UP],
            [TriggerKind.LEFT],
            [TriggerKind.FOLLOW_UP],
            [TriggerKind.JOINED],
            [TriggerKind.FOLLOW_UP],
            [TriggerKind.JOINED],
            [TriggerKind.FOLLOW_UP],
            [TriggerKind.LEFT],
            [TriggerKind.FOLLOW_UP],
            [TriggerKind.RETURNED],
            [TriggerKind.RETURNED],
        ]
        assert told[1][0].names == ("threads2-by-word-repartition",)
        (joined,), (waited,), (left,) = told[2:5]
        assert (short(joined.process), sorted(joined.names)) == (
            "57b3d74d",
            [f"c-StreamThread-{number}-consumer" for number in range(1, 5)],
        )
        assert len(waited.names) == 15
        assert waited.names[:3] == ("0_0", "0_2", "0_4")
        assert (short(left.process), left.names) == (
            "5435a4f9",
            ("b-StreamThread-1-consumer", "b-StreamThread-2-consumer"),
        )

    def test_should_see_the_probing_deadline_go_by(self) -> None:
        told = set_off(recorded("wcflow"))
        assert [(kinds(triggers), triggers[0].after) for triggers in told[4:9]] == [
            ([TriggerKind.PROBING], "196"),
            ([TriggerKind.FOLLOW_UP], None),
            ([TriggerKind.PROBING], "537"),
            ([TriggerKind.FOLLOW_UP], None),
            ([TriggerKind.PROBING], "696"),
        ]

    def test_should_know_static_members_by_their_instance(self) -> None:
        told = set_off(recorded("static"))
        assert kinds(told[3]) == [TriggerKind.RETURNED]
        assert (short(told[3][0].process), tuple(sorted(told[3][0].names)), told[3][0].before) == (
            "a3835749",
            STATIC,
            None,
        )
        assert kinds(told[5]) == [TriggerKind.LEFT]
        assert tuple(sorted(told[7][0].names)) == STATIC

    def test_should_know_static_members_whose_process_has_another_id(self) -> None:
        first, second = recorded("static")[:2]
        (_, told) = set_off([first, with_info(second, "b-", process_id=ProcessId.parse(NEW_ID))])
        assert [(str(each.process), each.kind, each.names, each.before) for each in told] == [
            (NEW_ID, TriggerKind.RETURNED, STATIC, "a3835749-672a-4109-9f02-3d21dcb276c8")
        ]


class TestChangedGroups:
    def test_should_see_threads_tags_configs_and_topics_change(self) -> None:
        first, second = recorded("wcflow")[:2]
        cluster = second["input"]["cluster"]
        grown = {**cluster["topics"], "wcflow-text": {"partitions": 7, "replicas": None, "leaders": None}}
        del grown["wcflow-users"]
        changed = with_input(
            without_members(with_info(second, "a-", client_tags={"zone": "east"}), "b-StreamThread-2"),
            cluster={**cluster, "topics": grown},
            configs={**second["input"]["configs"], "max.warmup.replicas": 8},
            assignor="LegacyStickyTaskAssignor",
        )
        (_, told) = set_off([first, changed])
        named = [(each.kind, short(each.process), each.names, each.before, each.after) for each in told]
        partitions = str(cluster["topics"]["wcflow-text"]["partitions"])
        users = str(cluster["topics"]["wcflow-users"]["partitions"])
        assert sorted(named, key=str) == sorted(
            [
                (TriggerKind.THREADS, "402a4ca9", (), "2", "1"),
                (TriggerKind.TAGS, "83dd50fb", (), "none", "zone=east"),
                (TriggerKind.CONFIG, None, ("assignor",), "HighAvailabilityTaskAssignor", "LegacyStickyTaskAssignor"),
                (TriggerKind.CONFIG, None, ("max.warmup.replicas",), "1", "8"),
                (TriggerKind.TOPIC, None, ("wcflow-text",), partitions, "7"),
                (TriggerKind.TOPIC, None, ("wcflow-users",), users, None),
            ],
            key=str,
        )

    def test_should_see_another_topology(self) -> None:
        first, second = recorded("wcflow")[:2]
        topology = second["input"]["topology"]
        fewer = {**topology, "subtopologies": topology["subtopologies"][:2]}
        assert kinds(set_off([first, with_input(second, topology=fewer)])[1]) == [TriggerKind.TOPOLOGY]

    def test_should_tell_all_that_happened_between_two_rounds(self) -> None:
        lines = recorded("wcflow")
        told = set_off([lines[2], lines[10]])[1]  # b left, and a follow-up of the first was due
        assert kinds(told) == [TriggerKind.LEFT, TriggerKind.FOLLOW_UP]

    @pytest.mark.parametrize("name", ["wcflow", "threads2", "static", "upgrade", "smoke", "optimized", "bridge1"])
    def test_should_never_be_without_a_cause(self, name: str) -> None:
        assert all(set_off(recorded(name)))
