"""One rebalance (rebalance/1) or one placement problem (placement/1) as a document, both ways.

A document is what JSON gives: mappings, lists, text and numbers. Reading is strict: a mistake is an InputError with
the path of the field, and a feature of a later release raises NotBuiltYet. Nothing here opens a file.
"""

from assignor.configs import dotted_configs
from assignor.recording.fields import KNOWN_ASSIGNORS, document_of_line, is_class_path, line_of_document
from assignor.recording.placement import PLACEMENT_FORMAT, RecordedPlacement, parse_placement, parse_recorded_placement
from assignor.recording.rebalance import (
    REBALANCE_FORMAT,
    RecordedOutput,
    RecordedRebalance,
    RecordedTopic,
    parse_rebalance,
    parse_rebalance_input,
    parse_recorded_rebalance,
)
from assignor.recording.topology_fields import as_topology
from assignor.recording.written import (
    placement_output,
    rebalance_document,
    rebalance_input,
    rebalance_output,
)

__all__ = [
    "KNOWN_ASSIGNORS",
    "PLACEMENT_FORMAT",
    "REBALANCE_FORMAT",
    "RecordedOutput",
    "RecordedPlacement",
    "RecordedRebalance",
    "RecordedTopic",
    "as_topology",
    "document_of_line",
    "dotted_configs",
    "is_class_path",
    "line_of_document",
    "parse_placement",
    "parse_rebalance",
    "parse_rebalance_input",
    "parse_recorded_placement",
    "parse_recorded_rebalance",
    "placement_output",
    "rebalance_document",
    "rebalance_input",
    "rebalance_output",
]
