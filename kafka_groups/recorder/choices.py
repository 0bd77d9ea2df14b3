"""The choices of the command line for each group: assignor, configs, topology.

`--topology` and `--config-file` take `GROUP=FILE`, or a file alone for all groups. `--config` takes `key=value`, or
`GROUP:key=value` for one group. A file of an application's properties has many keys that are not the assignor's; these
are ignored, while an unknown key in `--config` is an error. Values of `--config` win.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from assignor.configs import AssignmentConfigs
from assignor.errors import InputError
from assignor.recording.fields import as_assignor, is_class_path
from kafka_client.settings.properties_file import read_properties_file
from kafka_groups.application_file import DEFAULT_ASSIGNOR, configured_assignor, placement_configs
from kafka_groups.recorder.group_recorder import GroupChoices
from kafka_groups.recorder.topologies import ShownTopology, TopologySource, read_topology
from kafka_groups.topology_facts import TopologyFacts
from rebalance_analysis.reading.own_assignors import load_own_assignor

_NO_FACTS = TopologyFacts()


def group_choices(
    groups: Sequence[str],
    topologies: Sequence[str],
    config_files: Sequence[str],
    configs: Sequence[str],
    assignor: str | None,
    facts: TopologyFacts = _NO_FACTS,
) -> list[GroupChoices]:
    """One for each group, in order. `facts`: they complete every topology that is given as text. Raises InputError."""
    if not groups:
        raise InputError("name at least one group; a Kafka Streams group has the application.id as its name", "--group")
    if len(set(groups)) < len(groups) or not all(groups):
        raise InputError("name each group once; a name must not be empty", "--group")
    topology_files = _per_group(groups, topologies, "--topology")
    property_files = _per_group(groups, config_files, "--config-file")
    return [
        _choices(
            group, topology_files.get(group), property_files.get(group), _own(groups, group, configs), assignor, facts
        )
        for group in groups
    ]


def explicit_configs(groups: Sequence[str], configs: Sequence[str]) -> dict[str, str]:
    """The `--config key=value` options of an imported log, which has no groups."""
    return _own(groups, "", configs)


def _choices(
    group: str,
    topology: str | None,
    config_file: str | None,
    explicit: Mapping[str, str],
    assignor: str | None,
    facts: TopologyFacts,
) -> GroupChoices:
    properties = {} if config_file is None else read_properties_file(config_file)
    parsed = AssignmentConfigs.from_dotted({**placement_configs(properties), **explicit}, f"configs of {group}")
    name = as_assignor(assignor or configured_assignor(properties) or DEFAULT_ASSIGNOR, "--assignor")
    source: TopologySource = ShownTopology() if topology is None else read_topology(Path(topology), facts)
    return GroupChoices(group, name, parsed, source, load_own_assignor(name) if is_class_path(name) else None)


def _per_group(groups: Sequence[str], values: Sequence[str], option: str) -> dict[str, str]:
    chosen: dict[str, str] = {}
    for value in values:
        group, equals, file = value.partition("=")
        if not equals or group not in groups:
            if equals and not Path(value).exists():
                raise InputError(f"{group!r} is not one of the groups ({', '.join(groups)})", option)
            chosen.update({each: value for each in groups if each not in chosen})
        else:
            chosen[group] = file
    return chosen


def _own(groups: Sequence[str], group: str, configs: Sequence[str]) -> dict[str, str]:
    """The configs for all groups, overridden by those for this group."""
    for_all: dict[str, str] = {}
    for_group: dict[str, str] = {}
    for text in configs:
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            raise InputError(f"must be key=value or GROUP:key=value, not {text!r}", "--config")
        of_group, colon, rest = key.rpartition(":")
        if not colon:
            for_all[key.strip()] = value.strip()
        elif of_group not in groups:
            raise InputError(f"{of_group!r} is not one of the groups ({', '.join(groups)})", "--config")
        elif of_group == group:
            for_group[rest.strip()] = value.strip()
    return {**for_all, **for_group}
