"""What stands before and after the lines that nodes write into a fused loop, by what the loop goes over.

RECORDS: the records of a source. ROWS: what a node that takes batches hands on. CHANGES: what a record cache held back.
ONE: a single record, which a node hands on that is called once a record. Lines of nodes stand four levels deep.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from types import CodeType
from typing import NamedTuple

TOPIC_LINE = "  topic, partition = queue.partition"
"""In loops over records and rows. From here on it is known where they come from."""

_WORD = re.compile(r"\w+")


class LoopFrame(NamedTuple):
    """`failed`: the line for an error of a node that is not the last to have the record."""

    head: str
    tail: str
    failed: str


RECORDS = LoopFrame(
    """\
def fused(queue, keys, values, timestamps_ms, offsets, start, stop):
  topic, partition = queue.partition
  stream_time_ms = runtime.stream_time_ms
  at = start
  if current.failed_at:
    current.forget()
  rows = zip(range(start, stop), keys[start:stop], values[start:stop], timestamps_ms[start:stop])
  try:
   for at, key, value, timestamp_ms in rows:""",
    """\
  except BaseException as error:
    instead = state.failed(at, error)
    if instead is error:
      raise
    raise instead
  finally:
    runtime.stream_time_ms = stream_time_ms""",
    "state.record_failed(at, error)",
)
ROWS = LoopFrame(
    """\
def fused(queue, keys, values, timestamps_ms, places, stream_times_ms, offsets, input_ms, start):
  topic, partition = queue.partition
  row = start
  rows = zip({columns})
  try:
   for {variables} in rows:""",
    """\
  except BaseException as error:
    instead = state.failed(row, error)
    if instead is error:
      raise
    raise instead""",
    "state.record_failed(at, error)",
)
_OF_A_ROW = {"key": "keys", "value": "values", "timestamp_ms": "timestamps_ms"}
_IF_ASKED = {"at": "places", "stream_time_ms": "stream_times_ms"}
ONE = LoopFrame(
    """\
def fused(key, value, timestamp_ms):
  current.name = None{stream_time}
  try:
   if True:""",
    """\
  except Exception as error:
    state.node_failed(error)""",
    "state.node_failed(error)",
)
CHANGES = LoopFrame(
    """\
def fused(keys):
  if current.failed_at:
    current.forget()
  try:
   for key_bytes in keys:
    if key_bytes not in dirty:
     continue
    entry = entries[key_bytes]
    stored = entry[0]
    if stored is None or entry[1][1]:
     write_forwarded()
     write(key_bytes, entry)
     continue""",
    """\
  finally:
   write_forwarded()""",
    "state.flush_failed(error, context_of(entry))",
)


def frame_for(frame: LoopFrame, lines: Iterable[str]) -> LoopFrame:
    """The frame with what these lines ask for, but not with what they do not."""
    if frame not in (ROWS, ONE):
        return frame
    words = set(_WORD.findall("\n".join(lines)))
    if frame is ONE:
        asks = "stream_time_ms" in words
        head = ONE.head.format(stream_time="\n  stream_time_ms = runtime.stream_time_ms" * asks)
        return frame._replace(head=head)
    read = _OF_A_ROW | {variable: column for variable, column in _IF_ASKED.items() if variable in words}
    columns = ", ".join(["range(start, len(keys))", *(f"{column}[start:]" for column in read.values())])
    return frame._replace(head=ROWS.head.format(columns=columns, variables=", ".join(["row", *read])))


@lru_cache(maxsize=256)
def compiled_text(text: str) -> CodeType:
    """Tasks of one subtopology have the same text."""
    return compile(text, "<fused loop>", "exec")
