"""Writes led rebalances to a file as rebalance/1 lines, and reports them to the coordinator that shows the group.

Rules: a line is on disk before the next rebalance begins. A file that ends in half a line after a crash loses that half
line and nothing else. Only the leading process changes the file, so a standby may be given the same one. A failure of
file or coordinator never fails a rebalance; it is reported as a line of progress.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from assignor.errors import AssignorFault, InputError
from assignor.recording import line_of_document
from coordinator_client.calls import CoordinatorAddress
from kafka_groups.rebalance_reports import report_rebalance
from operating_system.private_files import private_opener, warn_if_readable_by_others

STDOUT = "-"
_MOST_WAITING_REPORTS = 100
_BLOCK = 1 << 16


class RebalanceRecords:
    """`output`: a file, `-` for stdout, None for none. `coordinator`: the service that shows the group, None for
    none.
    """

    def __init__(self, output: str | None, coordinator: CoordinatorAddress | None, say: Callable[[str], None]) -> None:
        self._output = output
        self._coordinator = coordinator
        self._say = say
        self._waiting: asyncio.Queue[Mapping[str, object]] = asyncio.Queue(_MOST_WAITING_REPORTS)
        if output is not None and output != STDOUT:
            prepare(output)

    async def add(self, document: Mapping[str, object], interrupted: Sequence[Mapping[str, object]] = ()) -> None:
        """`interrupted`: lines of generations before it that never got an assignment. A coordinator does not accept
        those.
        """
        if self._output is not None:
            try:
                for line in (*interrupted, document):
                    await asyncio.to_thread(append, self._output, line)
            except OSError as error:
                self._say(f"{self._output}: the rebalance cannot be written: {error.strerror}")
        if self._coordinator is not None:
            if self._waiting.full():
                self._waiting.get_nowait()
                self._say("a rebalance is not reported: the coordinator has not answered for too long")
            self._waiting.put_nowait(document)

    async def report(self) -> None:
        """Report waiting rebalances one after the other until cancelled."""
        while self._coordinator is not None:
            document = await self._waiting.get()
            await self._report(self._coordinator, document)

    async def report_rest(self, timeout_s: float) -> None:
        """Report the rebalances that still wait, for at most `timeout_s`."""
        try:
            async with asyncio.timeout(timeout_s):
                while self._coordinator is not None and not self._waiting.empty():
                    await self._report(self._coordinator, self._waiting.get_nowait())
        except TimeoutError:
            self._say("the last rebalances are not reported: the coordinator does not answer")

    async def _report(self, coordinator: CoordinatorAddress, document: Mapping[str, object]) -> None:
        try:
            await asyncio.to_thread(report_rebalance, coordinator, document)
        except AssignorFault as error:
            self._say(f"the rebalance is not reported: {error}")


def prepare(path: str) -> None:
    """Create the file. Raises InputError."""
    if path.endswith((".gz", ".parquet")):
        raise InputError("rebalances are appended to a plain file, which ends in .jsonl", path)
    try:
        with open(path, "ab+", opener=private_opener) as file:
            file.seek(0, os.SEEK_END)
        warn_if_readable_by_others(Path(path))
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror or error}", path) from None


def append(path: str, document: Mapping[str, object]) -> None:
    """Append the line and sync it. When this raises OSError, none of the line is in the file."""
    if path == STDOUT:
        print(line_of_document(document), flush=True)
        return
    with open(path, "ab+", buffering=0, opener=private_opener) as file:
        end = _end_of_last_line(file.fileno(), file.seek(0, os.SEEK_END))
        file.truncate(end)
        try:
            left = memoryview(f"{line_of_document(document)}\n".encode())
            while left:
                left = left[file.write(left) :]
            os.fsync(file.fileno())
        except OSError:
            file.truncate(end)
            raise


def _end_of_last_line(descriptor: int, end: int) -> int:
    while end > 0:
        start = max(0, end - _BLOCK)
        newline = os.pread(descriptor, end - start, start).rfind(b"\n")
        if newline >= 0:
            return start + newline + 1
        end = start
    return 0
