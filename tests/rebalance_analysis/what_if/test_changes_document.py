"""Changes as JSON and as options of a command."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from assignor.errors import InputError
from assignor.topology.group_topology import GroupTopology, Subtopology
from rebalance_analysis.commands.shared_options import changes_from_options
from rebalance_analysis.what_if import AddedInstances, Changes, changes_document, changes_from_document
from tests.known import known
from tests.recorded import document

TOPOLOGY = GroupTopology((Subtopology(0, ("in",)),), (("in",),))
EVERYTHING = Changes(
    assignor="LegacyStickyTaskAssignor",
    configs={"num.standby.replicas": "2", "topic.cleanup.policy": "a=b"},
    add_instances=(AddedInstances(3, 4, {"zone": "a", "host": "h"}), AddedInstances(2)),
    remove=("a", "b"),
    threads={"*": 4, "a=b": 2},
    tags={"*": {"zone": "a"}, "p:1": {"zone": "b", "host": "c"}},
    partitions={"in": 12},
    topology=TOPOLOGY,
    lags={"*": 0, "p/0_3": 5_000, "0_3": 1_000_000},
)
TOPOLOGY_DOCUMENT = changes_document(Changes(topology=TOPOLOGY))["topology"]


def test_should_read_back_what_it_wrote() -> None:
    assert changes_from_document(json.loads(json.dumps(changes_document(EVERYTHING)))) == EVERYTHING
    assert changes_document(Changes()) == {}
    assert changes_from_document({}) == Changes()


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({"set": {}}, r"changes.set: is not a known field; did you mean 'tags'\?|changes.set: is not a known field"),
        ({"add_instances": [{"threads": 3}]}, r"changes.add_instances\[0\].count: is missing"),
        ({"add_instances": [{"count": 0}]}, r"changes.add_instances\[0\].count: must be from 1 to 10000, not "),
        ({"add_instances": [{"count": 5000, "threads": 5000}]}, "5000 x 5000 threads are more than 10000"),
        ({"threads": {"a": "4"}}, "changes.threads.a: must be a whole number"),
        ({"lags": {"0_3": -1}}, r"changes.lags\['0_3'\]: must be from 0 to"),
        ({"partitions": {"t": 0}}, "changes.partitions.t: must be from 1 to"),
        ([], "changes: must be an object"),
    ],
)
def test_should_name_the_field_that_is_wrong(document: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        changes_from_document(document)


def options(**of: Any) -> Changes:
    return changes_from_options(**of)


def test_should_read_all_options(tmp_path: Path) -> None:
    file = tmp_path / "topology.json"
    file.write_text(json.dumps(TOPOLOGY_DOCUMENT, indent=1))
    assert options() == Changes()
    assert (
        options(
            set=["num.standby.replicas=2", "topic.cleanup.policy=a=b"],
            add_instances=["3x4,zone=a,host=h", "2"],
            remove=["a", "b", "a"],
            threads=["4", "a=b=2"],
            tags=["zone=a", "p:1:zone=b,host=c"],
            assignor="LegacyStickyTaskAssignor",
            partitions=["in=12"],
            topology=str(file),
            lags=["*=0", "p/0_3=5000", "0_3=1,000,000"],
        )
        == EVERYTHING
    )


def test_should_take_the_assignor_among_the_configs_as_well() -> None:
    asked = options(assignor="LegacyStickyTaskAssignor")
    assert options(set=["assignor=LegacyStickyTaskAssignor"]) == asked
    assert options(set=["assignor=LegacyStickyTaskAssignor"], assignor="LegacyStickyTaskAssignor") == asked


def test_should_take_the_topology_out_of_what_is_put_and_of_a_recording(tmp_path: Path) -> None:
    line = document("recordings/wcflow.jsonl.gz", "wcflow.8")
    written = {
        "topology.json": json.dumps(line["input"]["topology"]).encode(),
        "group.json": json.dumps(line["input"], indent=2).encode(),
        "round.jsonl.gz": gzip.compress(json.dumps(line).encode()),
    }
    found = []
    for name, content in written.items():
        (tmp_path / name).write_bytes(content)
        found.append(options(topology=str(tmp_path / name)))
    assert [subtopology.id for subtopology in known(found[0].topology).subtopologies] == [0, 1, 2]
    assert found == [found[0]] * 3


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"no json", r"is not a line of JSON: .* \(one JSON document is wanted\)"),
        (b'{"subtopologies": []}', "copartition_groups: is missing"),
        (b'{"input": {"topology": {"subtopologies": 3, "copartition_groups": []}}}', "subtopologies: must be a list"),
        (b"\x1f\x8bnonsense", "cannot be read: "),
        (b'{"input": 3}', "input: must be an object"),
    ],
)
def test_should_say_what_is_wrong_with_the_topology(tmp_path: Path, content: bytes, message: str) -> None:
    file = tmp_path / "topology.json"
    file.write_bytes(content)
    with pytest.raises(InputError, match=f"^--topology {file}.*{message}"):
        options(topology=str(file))
