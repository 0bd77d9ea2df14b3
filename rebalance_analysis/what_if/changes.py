"""Defines and parses the changes of a what-if: configs, instances, threads, tags, partitions, topology, lags, assignor.

A user can name a process by its id. A user can also give the client id, group instance id or member id of one of the
process's members. A prefix of such an id is enough if it matches only one process. The name `*` stands for all
processes. Changes are sent over HTTP as JSON. The note in a changed recording also contains the changes as JSON.

The functions `typed_...` parse changes such as `3x4`, `P=2` and `P/0_3=5000`, which users type in options and forms.
The parameter `where` is the name of the option; error messages show it. For a web form, `where` is empty, because the
form shows the error next to the field.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace

from assignor.errors import InputError
from assignor.recording.documents import document_of_fields
from assignor.recording.fields import (
    Fields,
    Value,
    as_assignor,
    as_integer,
    as_object,
    as_offset,
    as_partitions,
    as_task_id,
    as_text,
    list_items,
    object_entries,
)
from assignor.recording.topology_fields import as_topology, topology_document
from assignor.topology.group_topology import GroupTopology

EVERY_PROCESS = "*"


@dataclass(frozen=True, slots=True)
class AddedInstances:
    """New processes without state. `count`: the number of processes. `threads`: the number of stream threads of each.
    `tags`: the client tags of each.
    """

    count: int
    threads: int = 1
    tags: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Changes:
    """The changes of a what-if. Every field is optional. `Changes()` changes nothing.

    `configs`: config values by dotted names; they override the recorded values. `remove`: the names of processes that
    are removed with all their tasks. `threads`: the new number of stream threads, by process name. `tags`: for each
    process name, the client tags to set. A new tag replaces the tag that has the same key. `partitions`: the new
    partition counts of input topics. `topology`: the topology that replaces the recorded topology. `lags`: the new lags
    in records. A key `task` is for every process that reported the task. A key of the form `process/task` sets the lag
    for one process only. If a task is reported as running, its lag is not changed.
    """

    assignor: str | None = None
    configs: Mapping[str, object] = field(default_factory=dict)
    add_instances: tuple[AddedInstances, ...] = ()
    remove: tuple[str, ...] = ()
    threads: Mapping[str, int] = field(default_factory=dict)
    tags: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    partitions: Mapping[str, int] = field(default_factory=dict)
    topology: GroupTopology | None = None
    lags: Mapping[str, int] = field(default_factory=dict)


MAX_INSTANCES = 10_000
"""The largest number of added instances, and the largest number of threads of an instance. A real group has far fewer
instances and threads. The limit protects the service from callers that are not trusted.
"""

_FIELDS = tuple(field.name for field in fields(Changes))


def changes_document(changes: Changes) -> dict[str, object]:
    """Returns the changes as a document. The keys are the names of the fields. Fields without a change are left out, so
    the document of `Changes()` is `{}`.
    """
    topology = None if changes.topology is None else topology_document(changes.topology)
    document = document_of_fields(replace(changes, topology=None), *_FIELDS) | {"topology": topology}
    return {name: value for name, value in document.items() if value}


def changes_from_document(document: object, where: str = "changes") -> Changes:
    """Parses changes from a document. Raises InputError with the path of a value that is not valid. Does not check that
    the named processes exist; `changed` checks this.
    """
    fields = Fields(document, where, (), _FIELDS)
    return Changes(
        assignor=fields.read_or_none("assignor", as_assignor),
        configs=fields.read_or_none("configs", as_object) or {},
        add_instances=fields.read_or_none("add_instances", _as_all_added) or (),
        remove=fields.texts("remove") if fields.raw("remove") is not None else (),
        threads=fields.read_or_none("threads", _as_each(check_count)) or {},
        tags=fields.read_or_none("tags", _as_each(_as_each(as_text))) or {},
        partitions=fields.read_or_none("partitions", _as_each(as_partitions)) or {},
        topology=fields.read_or_none("topology", as_topology),
        lags=fields.read_or_none("lags", _as_each(as_offset)) or {},
    )


def check_count(value: object, where: str) -> int:
    """Checks a number of instances or threads, and returns it. Raises InputError if the number is not a whole number
    from 1 to MAX_INSTANCES.
    """
    return as_integer(value, where, 1, MAX_INSTANCES)


def check_added(added: AddedInstances, where: str) -> AddedInstances:
    """Returns `added`. Raises InputError if these instances together have more than MAX_INSTANCES threads."""
    if added.count * added.threads > MAX_INSTANCES:
        raise InputError(f"{added.count} x {added.threads} threads are more than {MAX_INSTANCES}", where)
    return added


def _as_all_added(value: object, where: str) -> tuple[AddedInstances, ...]:
    return tuple(_as_added(item, at) for item, at in list_items(value, where))


def _as_added(value: object, where: str) -> AddedInstances:
    fields = Fields(value, where, ("count",), ("threads", "tags"))
    return check_added(
        AddedInstances(
            fields.read("count", check_count),
            fields.read_or_none("threads", check_count) or 1,
            fields.read_or_none("tags", _as_each(as_text)) or {},
        ),
        where,
    )


def _as_each(read: Callable[[object, str], Value]) -> Callable[[object, str], dict[str, Value]]:
    """Returns a function that parses a JSON object. The returned function parses each value of the object with the
    function `read`.
    """
    return lambda value, where: {key: read(each, at) for key, each, at in object_entries(value, where)}


def typed_pairs(
    texts: Iterable[str], where: str, form: str, read: Callable[[str, str], tuple[str, Value]]
) -> dict[str, Value]:
    """Parses texts of the form `key=number`. The key may contain `=`. `form`: the expected form, such as `KEY=VALUE`;
    the error message shows it. Raises InputError for a text in another format.
    """
    return _pairs((text.rpartition("=") for text in texts), where, form, read)


def typed_configs(texts: Iterable[str], where: str) -> dict[str, str]:
    """Parses texts of the form `key=value`. The value may contain `=`. Raises InputError for a text in another
    format.
    """
    return _pairs((text.partition("=") for text in texts), where, "KEY=VALUE", lambda key, value: (key, value))


def _pairs(
    parts: Iterable[tuple[str, str, str]], where: str, form: str, read: Callable[[str, str], tuple[str, Value]]
) -> dict[str, Value]:
    pairs: dict[str, Value] = {}
    for key, equals, value in parts:
        if not equals or not key.strip():
            raise InputError(f"must be {form}, not {f'{key}{equals}{value}'[:80]!r}", where)
        name, read_value = read(key.strip(), value.strip())
        if name in pairs and pairs[name] != read_value:
            raise InputError(f"{name} is given twice", where)
        pairs[name] = read_value
    return pairs


def typed_threads(texts: Iterable[str], where: str) -> dict[str, int]:
    """Parses texts of the form `P=N` for a process P, or `N` for every process. Raises InputError for a text in another
    format.
    """
    with_process = [text if "=" in text else f"{EVERY_PROCESS}={text}" for text in texts]
    return typed_pairs(with_process, where, "[P=]N", lambda process, value: (process, _count(value, where)))


def typed_lags(texts: Iterable[str], where: str) -> dict[str, int]:
    """Parses texts of the form `TASK=N` for all processes, and `P/TASK=N` for one process. `*` stands for all tasks.
    Raises InputError for a text in another format.
    """

    def read(key: str, value: str) -> tuple[str, int]:
        process, slash, task = key.rpartition("/")
        if slash and not process:
            raise InputError(f"must be P/TASK=N, not {key}={value}", where)
        if task != EVERY_PROCESS:
            as_task_id(task, where)
        return key, as_offset(typed_number(value, where), where)

    return typed_pairs(texts, where, "TASK=N", read)


def typed_instances(text: str, where: str) -> AddedInstances:
    """Parses texts of the form `NxT[,TAG=V]`: N instances with T threads each. Raises InputError for a text in another
    format.
    """
    size, *tags = text.split(",")
    count, times, threads = size.strip().partition("x")
    if not count or (times and not threads):
        raise InputError(f"must be NxT, for example 3x4, not {text!r}", where)
    added = AddedInstances(
        _count(count, where), _count(threads, where) if times else 1, dict(typed_tag(tag, where) for tag in tags)
    )
    return check_added(added, where)


def _count(text: str, where: str) -> int:
    number = typed_number(text, where)
    if not 1 <= number <= MAX_INSTANCES:
        raise InputError(f"must be from 1 to {MAX_INSTANCES:,}, not {number}", where)
    return number


def typed_tag(text: str, where: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not key.strip() or not value.strip():
        raise InputError(f"a tag must be TAG=VALUE, not {text!r}", where)
    return key.strip(), value.strip()


def typed_number(text: str, where: str) -> int:
    """Parses a whole number. The number may contain `_` or `,` between groups of digits. Raises InputError for a text
    that is not a whole number.
    """
    digits = text.replace("_", "").replace(",", "")
    if not text.isascii() or not digits.isdigit() or len(text) > 40:
        raise InputError(f"must be a whole number, not {text[:80]!r}", where)
    return int(digits)
