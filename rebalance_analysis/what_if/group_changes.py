"""Changes the members of a group: removes and adds instances, and changes numbers of stream threads and client tags.

`OpenGroup` has the members of a snapshot, with decoded bytes. An unchanged member keeps its recorded bytes. A changed
member is encoded again, with the versions that were recorded.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from assignor.clients.client_metadata import DEFAULT_FUTURE_PROCESS_ID
from assignor.clients.client_state import EndOffsetSums
from assignor.errors import InputError
from assignor.names.short_names import instance_name
from assignor.pipeline.snapshot import Member, RebalanceSnapshot
from assignor.protocol.consumer_protocol import Subscription, encode_subscription, wire_version
from assignor.protocol.subscription_info import SubscriptionInfo, decode_members, encode_subscription_info
from assignor.protocol.versions import FIRST_VERSION_WITH_CLIENT_TAGS, FIRST_VERSION_WITH_OFFSET_SUMS
from assignor.types import LATEST_OFFSET, UNKNOWN_OFFSET_SUM, ProcessId
from rebalance_analysis.what_if.changes import AddedInstances
from rebalance_analysis.what_if.process_names import (
    by_process,
    new_instances,
    new_members,
    removed_processes,
    tags_by_process,
)


def remove_instances(group: OpenGroup, names: Iterable[str]) -> frozenset[ProcessId]:
    """Removes processes from the group, and returns these processes. Raises InputError if a name does not match exactly
    one process, or if no process would remain.
    """
    removed = removed_processes(names, group.names())
    for process, members in group.processes().items():
        if process in removed:
            for member in members:
                group.remove(member)
    return removed


def set_threads(group: OpenGroup, asked: Mapping[str, int], ends: EndOffsetSums, application_id: str) -> None:
    """Changes the numbers of stream threads of processes. `ends`: the end offsets of the changelogs. Raises InputError
    if a name does not match exactly one process.
    """
    processes = group.processes()
    for process, threads in by_process(asked, group.names(), "threads").items():
        members = processes[process]
        must_be_known(members[0], "threads")
        if threads < len(members):
            for member in members[threads:]:
                group.remove(member)
            group.put(_with_state_of(members[0], members[threads:], ends))
        elif threads > len(members):
            _add_threads(group, _new_thread(members[0]), members, threads - len(members), application_id)


def set_tags(group: OpenGroup, asked: Mapping[str, Mapping[str, str]]) -> None:
    """Adds client tags to processes. Raises InputError if a name does not match exactly one process, or if the
    subscription version of a member has no client tags.
    """
    processes = group.processes()
    for process, tags in tags_by_process(asked, group.names()).items():
        for member in processes[process]:
            must_speak(member, FIRST_VERSION_WITH_CLIENT_TAGS, "client tags", "tags")
            info = replace(member.info, client_tags={**member.info.client_tags, **tags})
            group.put(replace(member, info=info))


def add_instances(group: OpenGroup, application_id: str, asked: Iterable[AddedInstances]) -> None:
    """Adds instances without state. The new members subscribe to the same topics as a recorded member. Raises
    InputError if no recorded member can be copied.
    """
    processes = group.processes()
    racks = [_rack_of(members) for members in processes.values()]
    template = _template(group)
    for added, process, rack in new_instances(asked, application_id, frozenset(processes), racks):
        first = _empty_member(template, process, added.tags, rack)
        _add_threads(group, first, (), added.threads, application_id)


def _template(group: OpenGroup) -> OpenMember:
    for members in group.processes().values():
        for member in members:
            if not member.info.is_future:
                return member
    raise InputError("no member speaks a version that is known here", "add_instances")


def _rack_of(members: Iterable[OpenMember]) -> str | None:
    """Returns the rack of a process; None if its members have different racks."""
    racks = {member.subscription.rack for member in members}
    return racks.pop() if len(racks) == 1 else None


def _empty_member(like: OpenMember, process: ProcessId, tags: Mapping[str, str], rack: str | None) -> OpenMember:
    """Returns a new member without an endpoint. `like`: the member from which the new member gets its versions and its
    subscribed topics.
    """
    if tags:
        must_speak(like, FIRST_VERSION_WITH_CLIENT_TAGS, "client tags", "add_instances")
    info = SubscriptionInfo(like.info.version, like.info.latest_supported_version, process, client_tags=tags)
    return replace(like, process_id=process, subscription=Subscription(like.subscription.topics, rack=rack), info=info)


def _new_thread(like: OpenMember) -> OpenMember:
    """Returns a new thread without tasks. `like`: a member of the same process."""
    info = replace(like.info, task_offset_sums={}, listed_twice=frozenset(), unique_field=0, error_code=0)
    return replace(like, subscription=Subscription(like.subscription.topics, rack=like.subscription.rack), info=info)


def _add_threads(
    group: OpenGroup, like: OpenMember, members: Sequence[OpenMember], count: int, application_id: str
) -> None:
    """Adds copies of the member `like` to its process, with new ids. `members`: the present members of this process.
    `count`: the number of new members.
    """
    first = next((member.sent.client_id for member in members if member.sent.client_id), None)
    prefix = instance_name(first or "") or f"{application_id}-{like.process_id}"
    taken = {name for member in members for name in (member.member_id, member.sent.client_id) if name}
    for client_id, member_id in new_members(like.process_id, count, prefix, taken):
        group.put(replace(like, member_id=member_id, sent=Member(b"", client_id)))


def _with_state_of(first: OpenMember, gone: Sequence[OpenMember], ends: EndOffsetSums) -> OpenMember:
    """Returns the first thread of a process, with the state of the removed threads of this process. The state of
    removed threads stays on disk, and the first thread reports it. So the first thread also gets the offset sums of the
    removed threads' tasks. `gone`: the removed threads.

    If a task ran on a removed thread, its offset sum becomes the sum of the end offsets of its changelogs. If the
    subscription version of the first thread has no offset sums, the offset sums of these tasks become
    UNKNOWN_OFFSET_SUM.
    """
    has_offsets = first.info.version >= FIRST_VERSION_WITH_OFFSET_SUMS
    sums = dict(first.info.task_offset_sums)
    for member in gone:
        for task, offset_sum in member.info.task_offset_sums.items():
            position = ends.by_task.get(task) if offset_sum == LATEST_OFFSET else offset_sum
            is_better = task not in sums or (offset_sum == LATEST_OFFSET != sums[task])
            if position is not None and is_better:
                sums[task] = position if has_offsets else UNKNOWN_OFFSET_SUM
    return replace(first, info=replace(first.info, task_offset_sums=sums))


@dataclass(frozen=True, slots=True)
class OpenMember:
    """A member with decoded bytes. `process_id`: the process to which the member belongs according to the leader.
    `wire_version`: the version of the ConsumerProtocol in the bytes of the member.
    """

    member_id: str
    process_id: ProcessId
    sent: Member
    subscription: Subscription
    info: SubscriptionInfo
    wire_version: int


class OpenGroup:
    """The members of a group, in the order in which the leader received them. The methods change this object. `closed`
    returns the encoded members.
    """

    def __init__(self, snapshot: RebalanceSnapshot) -> None:
        """Decodes the members of the group. Raises DecodeError if the bytes of a member cannot be decoded. The error
        names the member.
        """
        future = snapshot.future_process_id or DEFAULT_FUTURE_PROCESS_ID
        decoded = dict(decode_members({member_id: sent.subscription for member_id, sent in snapshot.members.items()}))
        self._members: dict[str, OpenMember] = {}
        for member_id, sent in snapshot.members.items():
            subscription, info = decoded[member_id]
            process_id = future if info.is_future else info.process_id
            version = wire_version(sent.subscription)
            self._members[member_id] = OpenMember(member_id, process_id, sent, subscription, info, version)
        self._edited: set[str] = set()

    def processes(self) -> dict[ProcessId, list[OpenMember]]:
        """Returns the members of each process. The processes are in the order of their first members."""
        found: dict[ProcessId, list[OpenMember]] = {}
        for member in self._members.values():
            found.setdefault(member.process_id, []).append(member)
        return found

    def names(self) -> dict[ProcessId, list[str]]:
        """Returns, for each process, the names that identify it: the names of its instance, and the ids of its
        members.
        """
        return {
            process: [
                name
                for member in members
                for name in (*_client_names(member.sent.client_id), member.sent.group_instance_id, member.member_id)
                if name
            ]
            for process, members in self.processes().items()
        }

    def remove(self, member: OpenMember) -> None:
        del self._members[member.member_id]

    def put(self, member: OpenMember) -> None:
        """Appends a new member. If a member has the same id, replaces this member."""
        if self._members.get(member.member_id) != member:
            self._members[member.member_id] = member
            self._edited.add(member.member_id)

    def closed(self) -> Mapping[str, Member]:
        """Encodes the changed members, and returns all members. Raises InputError if a value cannot be encoded in its
        field.
        """
        return {
            member_id: _closed(member) if member_id in self._edited else member.sent
            for member_id, member in self._members.items()
        }


def must_be_known(member: OpenMember, where: str) -> None:
    """Raises InputError if the member has a future version. If a subscription has a future version, this program cannot
    decode any field except the version.
    """
    if member.info.is_future:
        raise InputError(f"member {member.member_id} speaks version {member.info.version}, not known here", where)


def must_speak(member: OpenMember, version: int, what: str, where: str) -> None:
    """Raises InputError if the subscription version of the member is lower than `version`. `what`: the name of the
    feature that a lower version lacks.
    """
    must_be_known(member, where)
    if member.info.version < version:
        raise InputError(f"member {member.member_id} speaks version {member.info.version}, without {what}", where)


def _client_names(client_id: str | None) -> tuple[str | None, ...]:
    return () if client_id is None else (instance_name(client_id), client_id)


def _closed(member: OpenMember) -> Member:
    user_data = member.subscription.user_data if member.info.is_future else encode_subscription_info(member.info)
    raw = encode_subscription(replace(member.subscription, user_data=user_data), member.wire_version)
    return replace(member.sent, subscription=raw)
