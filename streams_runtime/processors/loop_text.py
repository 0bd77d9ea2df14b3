"""What stands before and after the lines that nodes write into a fused loop, by what the loop goes over.

RECORDS: the records of a source. ROWS: what a node that takes batches hands on. CHANGES: what a record cache held back.
Lines of nodes stand four levels deep.
"""

from __future__ import annotations

from functools import lru_cache
from types import CodeType
from typing import NamedTuple


class Frame(NamedTuple):
    head: str
    tail: str


RECORDS = Frame(
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
)
ROWS = Frame(
    """\
def fused(queue, keys, values, timestamps_ms, places, stream_times_ms, offsets, input_ms, start):
  topic, partition = queue.partition
  row = start
  rows = zip(range(start, len(keys)), keys[start:], values[start:], timestamps_ms[start:], places[start:], stream_times_ms[start:])
  try:
   for row, key, value, timestamp_ms, at, stream_time_ms in rows:""",  # noqa: E501 - a line of the loop
    """\
  except BaseException as error:
    instead = state.failed(row, error)
    if instead is error:
      raise
    raise instead""",
)
CHANGES = Frame(
    """\
def fused(keys):
   if current.failed_at:
    current.forget()
   for key_bytes in keys:
    if key_bytes not in dirty:
     continue
    entry = entries[key_bytes]
    stored, context, _ = entry
    if stored is None or context[1]:
     write(key_bytes, entry)
     continue""",
    "",
)


@lru_cache(maxsize=256)
def compiled_text(text: str) -> CodeType:
    """Tasks of one subtopology have the same text."""
    return compile(text, "<fused loop>", "exec")
