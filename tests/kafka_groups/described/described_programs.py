"""Programs that Kafka Streams 4.3.1 described, beside what its builder and its leader made of them.

`described_programs.jsonl.gz`, one JSON object a line, has the answers of `tests/oracle/DescribedTopologies.java` to the
seeds in it. `topics`: source topics of a cluster on which the group has not run yet, with their partitions;
`partitions`: those of the repartition topics, or the name of the exception that Kafka's leader throws.
As a program: `python -m tests.kafka_groups.described.described_programs` makes the file anew.
"""

import gzip
import itertools
import json
import re
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

from assignor.configs import AssignmentConfigs
from assignor.errors import InputError, KafkaError
from assignor.topology.cluster import Cluster, TopicMetadata
from assignor.topology.group_topology import GroupTopology
from assignor.topology.internal_topics import InternalTopicCatalog, prepare_repartition_topics
from kafka_groups.described.copartition import CopartitionFacts
from kafka_groups.described.described_topology import topology_from_description

Program = dict[str, Any]

_KNOWN, _OPEN = 100, 25
_LONGEST_TEXT = 3500
_FOUND_LATER = (
    7_000_005_505,  # a stream is joined twice below a repartition topic that the optimizer moved
    1_771_011_807_000_139,  # the order of a cogroup and a join decides a count
    101_023_412,  # one answer fits two cogroups, and is right for one of them
    101_007_293,  # a join with a table that an operator with a name of the user's own may have filled
    102_007_308,  # the order of a join by foreign key decides a count
    102_008_164,  # the stores of a join with a name of the user's own have the number of its call
    201_000_722,  # a join with a table that is a join of a cogroup's table
    3_624_733_708_000_697,  # a merge reads a repartition topic of a join that the optimizer moved above it
)
"""Seeds of programs that were once not as in Kafka."""

_FILE = Path(__file__).with_name("described_programs.jsonl.gz")
_WAYS = re.compile(r"--(not-)?copartitioned ([\w.,-]+)", re.ASCII)
_REFUSED = "refused"


def described_programs() -> Iterator[Program]:
    with gzip.open(_FILE, "rt", encoding="utf-8") as lines:
        yield from map(json.loads, lines)


def in_kafka(program: Program) -> object:
    """The partitions of repartition topics, or that Kafka refuses the topics."""
    partitions = program["output"]["partitions"]
    return _REFUSED if isinstance(partitions, str) else partitions


def has_fixed_counts(program: Program) -> bool:
    """No text has the counts that a program gave to repartition topics; another assumption names those topics."""
    return any(
        count is not None
        for each in program["output"]["subtopologies"]
        for count in each["repartition_source_topics"].values()
    )


def asked(program: Program, facts: CopartitionFacts | None = None) -> str | None:
    """What the reader of the description asks; None when it knows enough."""
    found = _described(program, facts)
    return found if isinstance(found, str) else None


def here(program: Program, facts: CopartitionFacts | None = None) -> object:
    topology = _described(program, facts)
    assert not isinstance(topology, str)
    topics = {name: TopicMetadata(count) for name, count in program["output"]["topics"].items()}
    try:
        made = prepare_repartition_topics(topology, Cluster((), topics), InternalTopicCatalog(), AssignmentConfigs())
    except KafkaError:
        return _REFUSED
    return dict(made.ready)


def answered(program: Program) -> CopartitionFacts | None:
    """One of the ways that each question offers, chosen by what Kafka did, until no question offers one. None when a
    question offers no way that Kafka took.
    """
    groups = [frozenset(topic.removeprefix("app-") for topic in group) for group in _groups(program)]
    facts = CopartitionFacts()
    while (question := asked(program, facts)) is not None and _WAYS.search(question):
        together, apart = set(facts.together), set(facts.apart)
        for part in question.split("; say ")[1:]:
            ways = [(bool(match[1]), frozenset(match[2].split(","))) for match in _WAYS.finditer(part.split(";")[0])]
            joined = [topics for negated, topics in ways if not negated and any(topics <= group for group in groups)]
            together.update(sorted(joined, key=len)[-1:])
            apart.update(topics for negated, topics in ways if negated and not joined)
        answer = CopartitionFacts(tuple(together), tuple(apart))
        if answer == facts:
            return None
        facts = answer
    return facts


def _groups(program: Program) -> list[list[str]]:
    """The topics of each call that has topics co-partitioned, without those that Kafka adds from other calls."""
    groups: list[list[str]] = program["output"]["copartition_calls"]
    return groups


def _described(program: Program, facts: CopartitionFacts | None) -> GroupTopology | str:
    output = program["output"]
    return _read(output["describe"], tuple(output["topics"].items()), facts or CopartitionFacts())


@lru_cache(maxsize=4096)
def _read(text: str, topics: tuple[tuple[str, int], ...], facts: CopartitionFacts) -> GroupTopology | str:
    """The topology, or the question."""
    try:
        return topology_from_description(text, "app", dict(topics), copartition=facts).topology
    except InputError as question:
        return str(question)


def _chosen() -> Iterator[Program]:
    """Short programs with co-partitioned topics, from the first seeds; then those that were found later."""
    from tests.oracle.oracle import DESCRIBED_TOPOLOGIES, Oracle

    wanted = {False: _KNOWN, True: _OPEN}
    with Oracle(harness=DESCRIBED_TOPOLOGIES) as oracle:
        for seed in itertools.count():
            program = oracle.ask({"id": f"described-{seed}", "seed": seed})
            if not any(wanted.values()):
                break
            if _is_of_use(program) and wanted[is_open := asked(program) is not None]:
                wanted[is_open] -= 1
                yield program
        for seed in _FOUND_LATER:
            yield oracle.ask({"id": f"described-{seed}", "seed": seed})


def _is_of_use(program: Program) -> bool:
    output = program["output"]
    if len(output.get("describe", "")) not in range(1, _LONGEST_TEXT) or has_fixed_counts(program):
        return False
    return any(len(group) > 1 for group in output["copartition_groups"])


def main() -> None:
    with gzip.GzipFile(_FILE, "wb", mtime=0) as lines:
        for program in _chosen():
            lines.write(json.dumps(program, separators=(",", ":")).encode() + b"\n")


if __name__ == "__main__":
    main()
