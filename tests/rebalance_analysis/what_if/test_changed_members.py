"""Instances, threads and tags of a changed round: what the members say then, counted out on recorded rounds."""

from dataclasses import replace

import pytest

from assignor.errors import DecodeError, InputError
from assignor.pipeline.snapshot import Member
from assignor.protocol.consumer_protocol import Subscription, encode_subscription
from assignor.protocol.subscription_info import SubscriptionInfo, encode_subscription_info
from assignor.recording import parse_recorded_rebalance
from assignor.types import LATEST_OFFSET, UNKNOWN_OFFSET_SUM, ProcessId, TaskId
from rebalance_analysis.what_if import AddedInstances, Changes, changed
from tests.rebalance_analysis.what_if.groups import (
    A,
    B,
    C,
    members_of,
    problem_of,
    recorded,
    recorded_with,
    run_snapshot,
    said,
    what_if,
)
from tests.recorded import documents

ROUND = "wcflow.8"
TOPICS = ("wcflow-by-word-repartition", "wcflow-text", "wcflow-users")


def task(text: str) -> TaskId:
    return TaskId.parse(text)


class TestNothing:
    @pytest.mark.parametrize("name", ["wcflow", "upgrade", "optimized", "static"])
    def test_should_be_the_same_input_when_nothing_is_asked(self, name: str) -> None:
        for document in documents(f"recordings/{name}.jsonl.gz"):
            line = parse_recorded_rebalance(document)
            assert changed(line, Changes()) == replace(line, output=None)

    def test_should_not_even_read_the_members_when_only_configs_are_asked(self) -> None:
        broken = recorded_with(ROUND, members={"m": Member(b"\0")})
        configs = changed(broken, Changes(configs={"max.warmup.replicas": 7})).snapshot.configs
        assert configs == replace(broken.snapshot.configs, max_warmup_replicas=7)

    def test_should_name_the_member_whose_bytes_cannot_be_read(self) -> None:
        broken = recorded_with(ROUND, members={"m": Member(b"\0")})
        with pytest.raises(DecodeError, match="subscription of member m: "):
            changed(broken, Changes(remove=("m",)))


class TestConfigs:
    def test_should_go_over_the_recorded_ones(self) -> None:
        before = recorded(ROUND).snapshot
        after = what_if(ROUND, Changes(assignor="LegacyStickyTaskAssignor", configs={"num.standby.replicas": "0"}))
        assert after == replace(
            before, assignor="LegacyStickyTaskAssignor", configs=replace(before.configs, num_standby_replicas=0)
        )


class TestRemove:
    @pytest.mark.parametrize(
        "name", [str(C), "52a2", "c", "c-StreamThread-2-consumer", "c-StreamThread-1-consumer-783"]
    )
    def test_should_take_all_members_of_the_instance_away(self, name: str) -> None:
        before = recorded(ROUND).snapshot
        after = what_if(ROUND, Changes(remove=(name,)))
        left = {key: member for key, member in before.members.items() if key not in members_of(before, C)}
        assert len(left) == 4
        assert after == replace(before, members=left)

    def test_should_let_the_lowest_lead_when_the_leader_is_gone(self) -> None:
        assert recorded(ROUND).snapshot.leader_process_id == A
        assert what_if(ROUND, Changes(remove=("a",))).leader_process_id == min(B, C)
        assert what_if(ROUND, Changes(remove=("b",))).leader_process_id == A

    def test_should_find_a_static_member_by_its_instance_id(self) -> None:
        after = what_if("static.5", Changes(remove=("inst-c-2",)))
        assert not any(member.group_instance_id in ("inst-c-1", "inst-c-2") for member in after.members.values())
        assert len(after.members) == 4

    @pytest.mark.parametrize(
        ("names", "message"),
        [
            (
                ("nobody",),
                r"remove: no instance is called 'nobody'; there are 83dd50fb-\S+ \(a\), 402a4ca9-\S+ \(b\), ",
            ),
            (("",), "remove: no instance is called ''"),
            (("a", "b", "c"), "remove: no instance would be left"),
        ],
    )
    def test_should_say_who_is_there_when_it_cannot_be_done(self, names: tuple[str, ...], message: str) -> None:
        with pytest.raises(InputError, match=message):
            what_if(ROUND, Changes(remove=names))

    def test_should_list_the_candidates_of_an_ambiguous_name(self) -> None:
        with pytest.raises(InputError, match=r"'inst-' is the beginning of more than one instance: .*\(a\).*\(b\)"):
            what_if("static.5", Changes(remove=("inst-",)))


class TestAddInstances:
    def test_should_subscribe_as_the_others_with_nothing_of_its_own(self) -> None:
        before = recorded(ROUND).snapshot
        after = what_if(ROUND, Changes(add_instances=(AddedInstances(2, 3, {"zone": "a"}), AddedInstances(1))))
        assert list(after.members)[: len(before.members)] == list(before.members)
        new = {key: each for key, each in said(after).items() if key not in before.members}
        by_process: dict[ProcessId, list[str]] = {}
        for member_id, (subscription, info) in new.items():
            by_process.setdefault(info.process_id, []).append(member_id)
            assert subscription == Subscription(TOPICS, subscription.user_data)
            tags = info.client_tags
            assert info == SubscriptionInfo(11, 11, info.process_id, client_tags=tags)
        assert [len(members) for members in by_process.values()] == [3, 3, 1]
        assert [dict(new[members[0]][1].client_tags) for members in by_process.values()] == [{"zone": "a"}] * 2 + [{}]
        process, members = next(iter(by_process.items()))
        assert [after.members[member_id].client_id for member_id in members] == [
            f"wcflow-{process}-StreamThread-{number}-consumer" for number in (1, 2, 3)
        ]
        assert replace(after, members=before.members) == before

    def test_should_be_on_the_racks_with_the_fewest_instances(self) -> None:
        """The recorded group has an instance on each of racks r1 to r3 in its first rebalance."""
        before = recorded("racks.1").snapshot
        after = what_if("racks.1", Changes(add_instances=(AddedInstances(4, 2),)))
        racks = {info.process_id: subscription.rack for subscription, info in said(after).values()}
        known = {info.process_id for _, info in said(before).values()}
        of_known = sorted(str(rack) for process, rack in racks.items() if process in known)
        of_new = sorted(str(rack) for process, rack in racks.items() if process not in known)
        assert len(set(of_known)) == len(of_known) == 3
        assert of_new == sorted([*of_known, of_known[0]])

    def test_should_be_the_same_every_time_and_others_the_next(self) -> None:
        one = Changes(add_instances=(AddedInstances(1),))
        assert what_if(ROUND, one) == what_if(ROUND, one)
        twice = changed(changed(recorded(ROUND), one), one)
        assert twice.snapshot == what_if(ROUND, Changes(add_instances=(AddedInstances(2),)))

    def test_should_not_sort_all_new_instances_to_one_end(self) -> None:
        ran = run_snapshot(ROUND, Changes(add_instances=(AddedInstances(20),)))
        places = [process in (A, B, C) for process in sorted(problem_of(ran).clients)]
        assert places[0:3] != [True, True, True]
        assert places[-3:] != [True, True, True]

    def test_should_refuse_tags_where_the_group_speaks_a_version_without_them(self) -> None:
        info = encode_subscription_info(SubscriptionInfo(10, 10, A))
        old = recorded_with(ROUND, members={"m": Member(encode_subscription(Subscription(TOPICS, info)))})
        with pytest.raises(InputError, match="add_instances: member m speaks version 10, without client tags"):
            changed(old, Changes(add_instances=(AddedInstances(1, 1, {"zone": "a"}),)))
        with pytest.raises(InputError, match="tags: member m speaks version 10, without client tags"):
            changed(old, Changes(tags={"*": {"zone": "a"}}))
        (_, new) = said(changed(old, Changes(add_instances=(AddedInstances(1),))).snapshot).values()
        assert new[1] == SubscriptionInfo(10, 10, new[1].process_id)

    def test_should_say_when_a_version_cannot_be_edited(self) -> None:
        raw = bytes([0, 0, 0, 12, 0, 0, 0, 12])
        future = recorded_with(ROUND, members={"m": Member(encode_subscription(Subscription(TOPICS, raw)))})
        for changes in (Changes(add_instances=(AddedInstances(1),)), Changes(threads={"*": 2})):
            with pytest.raises(InputError, match="known here"):
                changed(future, changes)


class TestThreads:
    def test_should_give_new_threads_nothing_but_what_the_process_is(self) -> None:
        before = recorded(ROUND).snapshot
        after = what_if(ROUND, Changes(threads={"a": 4}))
        new = [member_id for member_id in members_of(after, A) if member_id not in before.members]
        assert [after.members[member_id].client_id for member_id in new] == [
            "a-StreamThread-3-consumer",
            "a-StreamThread-4-consumer",
        ]
        first = said(before)[members_of(before, A)[0]][1]
        for member_id in new:
            subscription, info = said(after)[member_id]
            assert subscription == Subscription(TOPICS, subscription.user_data)
            assert info == replace(first, task_offset_sums={}, unique_field=0)
        assert {key: after.members[key] for key in before.members} == before.members

    def test_should_leave_the_state_of_threads_that_go_to_the_first(self) -> None:
        """b-2 came first and stays. What ran on b-1 is where its changelogs end, its standbys are where they were."""
        before, after = recorded(ROUND).snapshot, what_if(ROUND, Changes(threads={"b": 1}))
        stays, goes = members_of(before, B)
        (left,) = members_of(after, B)
        assert left == stays
        ends = {task("1_5"): 2256, task("1_4"): 2476, task("1_1"): 733}
        own, other = (said(before)[member_id][1].task_offset_sums for member_id in (stays, goes))
        assert {each for each, offset in own.items() if offset == LATEST_OFFSET} == {
            task("2_1"),
            task("2_5"),
            task("2_4"),
        }
        assert {each for each, offset in other.items() if offset == LATEST_OFFSET} == ends.keys()
        assert said(after)[left][1].task_offset_sums == {**own, **other, **ends}
        problem = problem_of(run_snapshot(ROUND, Changes(threads={"b": 1})))
        assert problem.clients[B].capacity == 1
        assert problem.clients[B].lags.lag_for(task("1_5")) == 0

    def test_should_let_one_instance_go_before_all(self) -> None:
        after = what_if(ROUND, Changes(threads={"*": 1, "c": 3}))
        assert [len(members_of(after, process)) for process in (A, B, C)] == [1, 1, 3]

    def test_should_refuse_two_names_of_one_instance(self) -> None:
        with pytest.raises(InputError, match=rf"threads: 'c' and '52a2' are the same instance {C}"):
            what_if(ROUND, Changes(threads={"c": 1, "52a2": 3}))

    def test_should_know_no_position_where_the_version_has_no_offsets(self) -> None:
        def member(active: bool) -> Member:
            sums = {task("1_0" if active else "2_0"): LATEST_OFFSET}
            info = encode_subscription_info(SubscriptionInfo(6, 6, A, task_offset_sums=sums))
            return Member(encode_subscription(Subscription(TOPICS, info)))

        old = recorded_with(ROUND, members={"m": member(True), "n": member(False)})
        ((_, info),) = said(changed(old, Changes(threads={"*": 1})).snapshot).values()
        assert info.task_offset_sums == {task("1_0"): LATEST_OFFSET, task("2_0"): UNKNOWN_OFFSET_SUM}


class TestTags:
    def test_should_go_over_those_an_instance_has(self) -> None:
        tagged = changed(recorded(ROUND), Changes(tags={"*": {"zone": "a", "host": "x"}, "c": {"zone": "b"}}))
        again = changed(tagged, Changes(tags={"b": {"host": "y"}}))
        by_process = {info.process_id: dict(info.client_tags) for _, info in said(again.snapshot).values()}
        assert by_process == {
            A: {"zone": "a", "host": "x"},
            B: {"zone": "a", "host": "y"},
            C: {"zone": "b", "host": "x"},
        }
