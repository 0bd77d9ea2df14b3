"""Chunks in spans: runs of chunks that one process does one after the other, the unit that an engine schedules.

Rule: what is left is given out in pieces of one part in twice the cores, so spans are long at first (a gzip reader that
has to skip what is before its first chunk does so seldom) and single chunks at the end (no core waits long for
another). Never more than `MAX_SPAN` chunks, because what an executor gets is what its death makes others go on with.
"""

from __future__ import annotations

from collections.abc import Sequence

from spark_jobs.batch.work import ChunkT

MAX_SPAN = 64


def spans(chunks: Sequence[ChunkT], cores: int) -> list[list[ChunkT]]:
    """All of `chunks`, in order, in pieces for `cores` processes."""
    cut: list[list[ChunkT]] = []
    start = 0
    while start < len(chunks):
        size = min(MAX_SPAN, max(1, (len(chunks) - start) // (2 * cores)))
        cut.append(list(chunks[start : start + size]))
        start += size
    return cut
