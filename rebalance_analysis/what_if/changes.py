"""The changes of a what-if: configs, instances, threads, tags, partitions, topology, lags, assignor.

The name of a process is its id, or the client id, group instance id or member id of one of its members. A prefix of
such an id is a name, too, if it matches only one process. The name `*` stands for all processes. `Changes` have a JSON
form, which is sent over HTTP and is part of the note in a changed recording.

The functions `typed_...` parse changes such as `3x4`, `P=2` and `P/0_3=5000`, which users type in options and forms.
The parameter `where` is the name of the option for error messages. For a web form, which shows the error next to the
field, `where` is empty.
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
    """`count` new processes, each with `threads` stream threads, the client tags `tags`, and no state."""

    count: int
    threads: int = 1
    tags: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Changes:
    """The changes of a what-if. Every field is optional. `Changes()` changes nothing.

    `configs`: config values by dotted names, which override the recorded values. `remove`: processes to remove with all
    their tasks. `threads`: the new number of stream threads of a process. `tags`: client tags that are added to a
    process, or that replace its recorded tags of the same key. `partitions`: new partition counts of input topics.
    `topology`: the topology that replaces the recorded topology. `lags`: new lags in records. The key is a task (for
    every process that reported the task) or `process/task` (for one process). A task that is reported as running stays
    running.
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
"""The largest allowed number of added instances, and of threads of an instance. The limit is far above real groups, and
protects against documents from untrusted callers.
"""

_FIELDS = tuple(field.name for field in fields(Changes))


def changes_document(changes: Changes) -> dict[str, object]:
    """Returns the changes as a document with the field names as keys. A field without a change is left out, so the
    document of `Changes()` is `{}`.
    """
    topology = None if changes.topology is None else topology_document(changes.topology)
    document = document_of_fields(replace(changes, topology=None), *_FIELDS) | {"topology": topology}
    return {name: value for name, value in document.items() if value}


def changes_from_document(document: object, where: str = "changes") -> Changes:
    """Parses changes from a document. Raises InputError with the path of the invalid value. The existence of the named
    processes is checked later, by `changed`.
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
    """Checks and returns a number of instances or of threads. Raises InputError if `value` is not a whole number from 1
    to MAX_INSTANCES.
    """
    return as_integer(value, where, 1, MAX_INSTANCES)


def check_added(added: AddedInstances, where: str) -> AddedInstances:
    """Returns `added`. Raises InputError if all added instances together have more than MAX_INSTANCES threads."""
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
    """Returns a function that parses a JSON object, each of whose values is parsed with `read`."""
    return lambda value, where: {key: read(each, at) for key, each, at in object_entries(value, where)}


def typed_pairs(
    texts: Iterable[str], where: str, form: str, read: Callable[[str, str], tuple[str, Value]]
) -> dict[str, Value]:
    """Parses `key=number` texts; the key may contain `=`. `form`: the expected format for the error message, such as
    `KEY=VALUE`. Raises InputError for a text in another format.
    """
    return _pairs((text.rpartition("=") for text in texts), where, form, read)


def typed_configs(texts: Iterable[str], where: str) -> dict[str, str]:
    """Parses `key=value` texts; the value may contain `=`. Raises InputError for a text in another format."""
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
    """Parses `P=N` texts, or `N` for every process. Raises InputError for a text in another format."""
    with_process = [text if "=" in text else f"{EVERY_PROCESS}={text}" for text in texts]
    return typed_pairs(with_process, where, "[P=]N", lambda process, value: (process, _count(value, where)))


def typed_lags(texts: Iterable[str], where: str) -> dict[str, int]:
    """Parses `TASK=N` texts for all processes, and `P/TASK=N` texts for one process. TASK may be `*`. Raises InputError
    for a text in another format.
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
    """Parses `NxT[,TAG=V]`: N instances with T threads each. Raises InputError for a text in another format."""
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
    """Parses a whole number. The number may contain `_` and `,` as separators of digit groups. Raises InputError for a
    text that is not a whole number.
    """
    digits = text.replace("_", "").replace(",", "")
    if not text.isascii() or not digits.isdigit() or len(text) > 40:
        raise InputError(f"must be a whole number, not {text[:80]!r}", where)
    return int(digits)
