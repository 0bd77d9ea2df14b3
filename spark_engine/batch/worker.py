"""Runs spans. A span is a sequence of chunks that one process runs one after the other. An engine schedules spans, not
single chunks. A chunk that has a part is not run again. A chunk fails if its work raises an exception, or if
`MAX_DEATHS` processes died while they ran the chunk. The reason of a failure is written to a file. After a failed
chunk, the next chunk of the span runs. If `MAX_FAILURES` chunks of a span have failed, the remaining chunks of the span
are not run, because they would probably fail, too.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Generic

from spark_engine.batch.parts import PartsSeen, deaths, mark_started, write_failure, write_part
from spark_engine.batch.work import ChunkT, Work

MAX_SPAN = 64
MAX_DEATHS = 3
MAX_FAILURES = 3


@dataclass(frozen=True, slots=True)
class Job(Generic[ChunkT]):
    """The work to run, and the directory of its parts. `parts`: the path of the parts directory on the machine that
    runs the span.
    """

    work: Work[ChunkT]
    parts: str


def run_span(job: Job[ChunkT], span: Sequence[ChunkT], attempt: int) -> None:
    """Runs the chunks of a span that have no part yet. `attempt`: the number of earlier attempts to run this span. Each
    earlier attempt ended because its process died or was lost.

    Raises OSError if the file that marks a chunk as failed cannot be written. If the parts directory does not exist,
    runs no chunk. The driver then finds that parts are missing.
    """
    directory = Path(job.parts)
    if not directory.is_dir():
        return
    mark_started(directory)
    seen = PartsSeen(directory, span)
    seen.refresh()
    failures = sum(chunk.number in seen.failed for chunk in span)
    left = deque(chunk for chunk in span if chunk.number not in seen.parts and chunk.number not in seen.failed)
    if attempt and left and deaths(directory, left[0].number) >= MAX_DEATHS:
        write_failure(directory, left.popleft().number, f"its process died {MAX_DEATHS} times")
        failures += 1
    while left and failures < MAX_FAILURES:
        try:
            _run(job, left)
        except Exception as fault:
            write_failure(directory, left.popleft().number, f"{type(fault).__name__}: {fault}", fault)
            failures += 1


def _run(job: Job[ChunkT], left: deque[ChunkT]) -> None:
    """Runs the chunks, and removes each chunk from `left` when its part is written. So the first chunk in `left` is
    always the chunk that is being run.
    """
    outputs = iter(job.work.run(iter(tuple(left))))
    while left:
        output = next(outputs, None)
        if output is None:
            raise ValueError("the work gave no output for it")
        if not output.rows.schema.equals(job.work.schema):
            raise ValueError(f"the work gave columns {output.rows.schema} instead of {job.work.schema}")
        write_part(Path(job.parts), left[0].number, output)
        left.popleft()


def spans(chunks: Sequence[ChunkT], cores: int) -> list[list[ChunkT]]:
    """Divides `chunks`, in order, into spans for `cores` processes.

    Each span takes the fraction 1 / (2 * cores) of the remaining chunks. So the first spans are long and the last spans
    have one chunk each. Long spans save time, because a gzip reader has to skip to the first chunk of each span. The
    last spans are short, so all cores finish at about the same time. No span has more than `MAX_SPAN` chunks. If the
    executor of a span dies, a single executor runs the rest of the span.
    """
    cut: list[list[ChunkT]] = []
    start = 0
    while start < len(chunks):
        size = min(MAX_SPAN, max(1, (len(chunks) - start) // (2 * cores)))
        cut.append(list(chunks[start : start + size]))
        start += size
    return cut
