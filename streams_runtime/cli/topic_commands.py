"""`assignor topics`: lists, describes, creates, alters and deletes topics, like `kafka-topics.sh`."""

import re
from collections.abc import Iterable, Mapping
from typing import Annotated, Any

import typer

from assignor.errors import InputError
from assignor.names.near_names import near_name
from assignor.types import TopicPartition
from assignor_cli.help_texts import example
from assignor_cli.option_groups import options_of
from assignor_cli.output import Format, FormatOption, ResultOutput, output_from_options, show
from assignor_cli.tables import Column, View, table_text
from streams_runtime.cli.data_options import LogAddress, count_text
from streams_runtime.logs.base import IsolationLevel, Log, NewTopic, TopicDescription
from streams_runtime.logs.log_errors import TopicExists

topics = typer.Typer(help="List, describe, create, change and delete topics of a log.", no_args_is_help=True)

Topics = Annotated[list[str], typer.Argument(metavar="TOPIC...", help="Names of the topics.")]
_CONFIG_HELP = "A config of the topic by Kafka's name, such as cleanup.policy=compact; repeat for more."
_REPLICATION_HELP = "Number of replicas of each partition. Default: the setting of the brokers."

# the names of topic configs, from `TopicConfig` in Kafka 4.3.1
_KNOWN_CONFIGS = """
    cleanup.policy compression.gzip.level compression.lz4.level compression.type compression.zstd.level
    delete.retention.ms errors.deadletterqueue.group.enable file.delete.delay.ms flush.messages flush.ms
    follower.replication.throttled.replicas index.interval.bytes internal.segment.bytes
    leader.replication.throttled.replicas local.retention.bytes local.retention.ms max.compaction.lag.ms
    max.message.bytes message.timestamp.after.max.ms message.timestamp.before.max.ms message.timestamp.type
    min.cleanable.dirty.ratio min.compaction.lag.ms min.insync.replicas preallocate remote.copy.disabled
    remote.log.copy.disable remote.log.delete.on.disable remote.storage.enable retention.bytes retention.ms
    segment.bytes segment.index.bytes segment.jitter.ms segment.ms unclean.leader.election.enable
"""
KNOWN_CONFIGS = frozenset(re.findall(r"\S+", _KNOWN_CONFIGS))


@topics.command("list", epilog=example("topics list --bootstrap-server embedded:log"))
@options_of(address=LogAddress, output=output_from_options)
def list_topics(
    address: LogAddress,
    output: ResultOutput,
    exclude_internal: Annotated[
        bool, typer.Option("--exclude-internal", help="Leave out topics whose names begin with two underscores.")
    ] = False,
) -> None:
    """List every topic with its partitions and records."""
    with address.opened() as log:

        def ask() -> dict[str, Any]:
            known = [each for name, each in sorted(log.topics().items()) if not (exclude_internal and name[:2] == "__")]
            return {"topics": [_summary(log, each) for each in known]}

        output.show(ask, _list_text)


@topics.command("describe", epilog=example("topics describe lines --bootstrap-server embedded:log"))
@options_of(address=LogAddress, output=output_from_options)
def describe_topics(names: Topics, address: LogAddress, output: ResultOutput) -> None:
    """Show the configs of topics, and the offsets of partitions."""
    with address.opened() as log:

        def ask() -> dict[str, Any]:
            known = log.topics()
            address.check_known(names, known)
            described = [
                {"topic": name, "configs": dict(known[name].configs), "partitions": _offsets(log, known[name])}
                for name in names
            ]
            return {"topics": described}

        output.show(ask, _description_text)


@topics.command("create", epilog=example("topics create lines --partitions 4 --bootstrap-server embedded:log"))
@options_of(address=LogAddress)
def create_topics(
    names: Topics,
    address: LogAddress,
    partitions: Annotated[int, typer.Option(min=1, max=100_000, help="Number of partitions of each topic.")] = 1,
    replication_factor: Annotated[int | None, typer.Option(min=1, max=32_767, help=_REPLICATION_HELP)] = None,
    config: Annotated[list[str] | None, typer.Option(metavar="KEY=VALUE", help=_CONFIG_HELP)] = None,
    if_not_exists: Annotated[
        bool, typer.Option("--if-not-exists", help="Report topics that exist already, and leave them unchanged.")
    ] = False,
    format: FormatOption = Format.TEXT,
) -> None:
    """Create topics.

    If the directory has no embedded log, the command creates it.
    """
    configs = topic_configs(config or (), is_kafka=address.is_kafka)
    with address.opened(create=True) as log:
        there = log.topics()
        asked = list(dict.fromkeys(names))
        for name in asked:
            if name in there and not if_not_exists:
                count = count_text(there[name].partitions, "partition")
                raise TopicExists(f"topic {name} exists, with {count}; --if-not-exists leaves it as it is")
        missing = [name for name in asked if name not in there]
        log.create_topics(NewTopic(name, partitions, configs, replication_factor or -1) for name in missing)
    counts = {name: partitions if name in missing else there[name].partitions for name in asked}
    result = [{"topic": name, "created": name in missing, "partitions": counts[name]} for name in asked]
    lines = [
        f"{name}: {'created' if name in missing else 'exists'}, {count_text(counts[name], 'partition')}"
        for name in asked
    ]
    show({"topics": result}, "\n".join(lines), format)


@topics.command("alter", epilog=example("topics alter lines --partitions 8 --bootstrap-server embedded:log"))
@options_of(address=LogAddress)
def alter_topics(
    names: Topics,
    address: LogAddress,
    partitions: Annotated[
        int | None, typer.Option(min=1, max=100_000, help="New, higher number of partitions of each topic.")
    ] = None,
    config: Annotated[list[str] | None, typer.Option(metavar="KEY=VALUE", help=_CONFIG_HELP)] = None,
    delete_config: Annotated[
        list[str] | None, typer.Option(metavar="KEY", help="A config to reset to its default; repeat for more.")
    ] = None,
    format: FormatOption = Format.TEXT,
) -> None:
    """Add partitions to topics, and change their configs.

    After partitions are added, new records of a key may go to a different partition. An application that keeps state
    for a topic stops with an error if the topic's number of partitions changes.
    """
    changes: dict[str, str | None] = dict(topic_configs(config or (), is_kafka=address.is_kafka))
    for key in delete_config or ():
        if key in changes:
            raise InputError(f"{key} is set by --config, too: give one of the two", "--delete-config")
        _check_config_name(key, "--delete-config", is_kafka=address.is_kafka)
        changes[key] = None
    if partitions is None and not changes:
        raise InputError("nothing to change: give --partitions, --config or --delete-config", "")
    asked = list(dict.fromkeys(names))
    with address.opened() as log:
        before = log.topics()
        address.check_known(asked, before)
        for name in asked:
            log.alter_topic(name, partitions, changes)
        after = log.topics()
    lines = [
        f"{name}: {count_text(after[name].partitions, 'partition')} ({before[name].partitions} before), "
        f"configs: {_configs_text(after[name].configs, ', ') or 'none of its own'}"
        for name in asked
    ]
    result = [
        {"topic": name, "partitions": after[name].partitions, "configs": dict(after[name].configs)} for name in asked
    ]
    show({"topics": result}, "\n".join(lines), format)


@topics.command("delete", epilog=example("topics delete counts --bootstrap-server embedded:log"))
@options_of(address=LogAddress)
def delete_topics(
    names: Topics,
    address: LogAddress,
    if_exists: Annotated[bool, typer.Option("--if-exists", help="Ignore topics that do not exist.")] = False,
    format: FormatOption = Format.TEXT,
) -> None:
    """Delete topics with all their records.

    The committed offsets of all groups in these topics are deleted as well.
    """
    with address.opened() as log:
        known = log.topics()
        if not if_exists:
            address.check_known(names, known, "--if-exists leaves out what is not there")
        there = [name for name in dict.fromkeys(names) if name in known]
        records = {name: _summary(log, known[name])["records"] for name in there}
        log.delete_topics(there)
    asked = list(dict.fromkeys(names))
    lines = [
        f"{name}: deleted, with {count_text(records[name], 'record')}" if name in records else f"{name}: is not there"
        for name in asked
    ]
    show({"topics": [{"topic": name, "deleted": name in records} for name in asked]}, "\n".join(lines), format)


def topic_configs(given: Iterable[str], *, is_kafka: bool) -> dict[str, str]:
    """Parses texts of the form `key=value`. Raises InputError if a text has no `=`, or if its key is unknown.

    For a Kafka log, the broker checks the keys instead of this function, because the broker may know keys of newer
    releases.
    """
    configs: dict[str, str] = {}
    for each in given:
        key, separator, value = each.partition("=")
        if not separator or not key:
            raise InputError(f"must be KEY=VALUE, not {each!r}", "--config")
        _check_config_name(key, "--config", is_kafka=is_kafka)
        configs[key.strip()] = value.strip()
    return configs


def _check_config_name(key: str, option: str, *, is_kafka: bool) -> None:
    if not is_kafka and key.strip() not in KNOWN_CONFIGS:
        near = near_name(key, KNOWN_CONFIGS)
        hint = "" if near is None else f"; did you mean {near}?"
        raise InputError(f"a topic has no config {key!r}{hint}", option)


def _summary(log: Log, topic: TopicDescription) -> dict[str, Any]:
    return {
        "topic": topic.name,
        "partitions": topic.partitions,
        "records": sum(each["end_offset"] - each["begin_offset"] for each in _offsets(log, topic)),
        "configs": dict(topic.configs),
    }


def _offsets(log: Log, topic: TopicDescription) -> list[dict[str, int]]:
    partitions = [TopicPartition(topic.name, number) for number in range(topic.partitions)]
    begins = log.begin_offsets(partitions)
    ends = log.end_offsets(partitions, IsolationLevel.READ_UNCOMMITTED)
    return [
        {"partition": each.partition, "begin_offset": begins[each], "end_offset": ends[each]} for each in partitions
    ]


_LIST_COLUMNS = (
    Column("NAME", shorten=True),
    Column("PARTITIONS", right=True),
    Column("RECORDS", right=True),
    Column("CONFIGS", wide=True),
)


def _list_text(document: dict[str, Any], view: View) -> str:
    rows = [
        (each["topic"], each["partitions"], each["records"], _configs_text(each["configs"], ","))
        for each in document["topics"]
    ]
    return table_text("No topics.", _LIST_COLUMNS, rows, view)


_OFFSET_COLUMNS = (
    Column("PARTITION", right=True),
    Column("BEGIN", right=True),
    Column("END", right=True),
    Column("RECORDS", right=True),
)


def _description_text(document: dict[str, Any], view: View) -> str:
    return "\n\n".join(_one_description_text(each, view) for each in document["topics"])


def _one_description_text(topic: dict[str, Any], view: View) -> str:
    rows = [
        (each["partition"], each["begin_offset"], each["end_offset"], each["end_offset"] - each["begin_offset"])
        for each in topic["partitions"]
    ]
    total = count_text(sum(row[3] for row in rows), "record")
    return "\n".join(
        (
            f"{topic['topic']}: {count_text(len(rows), 'partition')}, {total}",
            f"configs: {_configs_text(topic['configs'], ', ') or 'none of its own'}",
            table_text("", _OFFSET_COLUMNS, rows, view),
        )
    )


def _configs_text(configs: Mapping[str, str], separator: str) -> str:
    return separator.join(f"{key}={value}" for key, value in sorted(configs.items()))
