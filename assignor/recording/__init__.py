"""Reads and writes one rebalance (rebalance/1) or one placement problem (placement/1) as a document.

A document consists of JSON's types: mappings, lists, text and numbers. Reading is strict. A mistake in a document
raises InputError with the path of the field. A feature of a later release raises NotBuiltYet. The package `recording`
opens no files.
"""

from assignor.configs import dotted_configs as dotted_configs
from assignor.recording.fields import KNOWN_ASSIGNORS as KNOWN_ASSIGNORS
from assignor.recording.fields import document_of_line as document_of_line
from assignor.recording.fields import is_class_path as is_class_path
from assignor.recording.fields import line_of_document as line_of_document
from assignor.recording.placement import PLACEMENT_FORMAT as PLACEMENT_FORMAT
from assignor.recording.placement import RecordedPlacement as RecordedPlacement
from assignor.recording.placement import parse_placement as parse_placement
from assignor.recording.placement import parse_recorded_placement as parse_recorded_placement
from assignor.recording.rebalance import REBALANCE_FORMAT as REBALANCE_FORMAT
from assignor.recording.rebalance import RecordedOutput as RecordedOutput
from assignor.recording.rebalance import RecordedRebalance as RecordedRebalance
from assignor.recording.rebalance import RecordedTopic as RecordedTopic
from assignor.recording.rebalance import parse_rebalance as parse_rebalance
from assignor.recording.rebalance import parse_rebalance_input as parse_rebalance_input
from assignor.recording.rebalance import parse_recorded_rebalance as parse_recorded_rebalance
from assignor.recording.topology_fields import as_topology as as_topology
from assignor.recording.written import placement_output as placement_output
from assignor.recording.written import rebalance_document as rebalance_document
from assignor.recording.written import rebalance_input as rebalance_input
from assignor.recording.written import rebalance_output as rebalance_output
