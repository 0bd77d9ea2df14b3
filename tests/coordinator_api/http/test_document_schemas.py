"""Documents are read by hand and described by schemas: the readers take nothing that the schemas refuse, and refuse
what the schemas take only for reasons that no schema can say.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assignor.errors import DecodeError, InputError
from assignor.recording import parse_recorded_placement, parse_recorded_rebalance
from coordinator_api.errors import CoordinatorFault
from coordinator_api.groups.definitions import DocumentBounds, declared_definition
from coordinator_api.groups.document_names import check_names
from coordinator_api.groups.reported_rebalances import read_report
from coordinator_api.http.app import create_app
from coordinator_api.http.json_objects import parse_object
from coordinator_api.http.openapi import described
from coordinator_api.http.problems import Problem
from coordinator_api.settings import Settings
from tests.coordinator_api.group_members import definition
from tests.coordinator_api.http.changed_documents import RECORDINGS, one_change

BOUNDS = DocumentBounds(max_partitions=100_000, max_subtopologies=1_000)
COMPONENTS = described(create_app(Settings()))["components"]

REBALANCES = [each for each in RECORDINGS if each["format"] == "rebalance/1"]
PLACEMENTS = [each for each in RECORDINGS if each["format"] == "placement/1"]


def reported(document: dict[str, Any]) -> object:
    return read_report(document, str(document.get("group_id")), BOUNDS)


def computed(document: dict[str, Any]) -> None:
    """As `/v1/assign` and `/v1/simulate` read it."""
    check_names(parse_recorded_rebalance(document).snapshot, "input")


def as_reported(recording: dict[str, Any]) -> dict[str, Any]:
    return {**recording, "source": "kafka", "generation_id": max(1, recording["generation_id"])}


KINDS: dict[str, tuple[Callable[[dict[str, Any]], object], list[dict[str, Any]]]] = {
    "DefinitionBody": (lambda document: declared_definition(document, "g", BOUNDS), [definition()]),
    "ReportBody": (reported, [as_reported(each) for each in REBALANCES]),
    "RebalanceDocument": (computed, REBALANCES),
    "PlacementDocument": (parse_recorded_placement, PLACEMENTS),
}
SCHEMAS = {
    name: jsonschema_rs.validator_for({"$ref": f"#/components/schemas/{name}", "components": COMPONENTS})
    for name in KINDS
}

NO_SCHEMA_SAYS_IT = re.compile(
    "entries for .* partitions"  # one for each
    "|consumers for a capacity of"
    "|have the same id|is given twice"
    "|is missing; it is needed|(?:task|changelog)_partitions: .* is missing"
    "|is not in tasks|is not a member of input.members"
    "|not both"
    "|is not the name of a store"  # in a definition alone
    "|all tasks have to be of one topology"
    "|has a number above"  # text
    "|not float"  # to JSON Schema 1.0 is an integer
    "|base64|decode|at byte"
    "|is not available|is not listed"  # settings
    "|are more than group.max"
)


def accepted(reader: Callable[[dict[str, Any]], object], document: dict[str, Any]) -> str | None:
    """None, or why not."""
    try:
        reader(document)
    except (InputError, DecodeError, CoordinatorFault) as error:
        return str(error)
    return None


@pytest.mark.parametrize("kind", KINDS)
def test_should_describe_what_real_leaders_recorded(kind: str) -> None:
    reader, documents = KINDS[kind]

    assert documents
    for document in documents:
        assert accepted(reader, document) is None
        SCHEMAS[kind].validate(document)


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
def test_should_take_what_the_schema_takes_and_nothing_else(kind: str, data: st.DataObject) -> None:
    reader, documents = KINDS[kind]
    raw = json.dumps(one_change(data, data.draw(st.sampled_from(documents)))).encode("ascii")
    try:
        changed = parse_object(raw)
    except Problem:  # half a surrogate pair, which is no text
        return

    why_not = accepted(reader, changed)

    if SCHEMAS[kind].is_valid(changed):
        assert why_not is None or NO_SCHEMA_SAYS_IT.search(why_not), changed
    else:
        assert why_not is not None, changed
