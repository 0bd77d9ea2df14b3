"""Kafka Streams' own leader as a function: a line of rebalance/1, placement/1 or codec/1 in, the same with output.

One Java process (`Oracle.java`) serves line after line. Every line has a time in which it has to be answered; a process
that takes longer, or dies, is an OracleFault with its last words, and the next line gets a new process. A line comes
back with what iterates in the order of Java's hash maps in the order that the leader saw.

As a program: `python -m tests.oracle.oracle FILE [RELEASE]` writes the lines of FILE with Kafka's output, computed anew
by the classes of a release, 4.3.1 if none is given.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

from tests.known import known
from tests.oracle import jars

Line = dict[str, Any]

HARNESS = [Path(__file__).parent / f"{name}.java" for name in ("Oracle", "PublicInterface", "CustomAssignors")]
FAILURES = jars.BUILD / "failures"
LONGEST_ANSWER_S = 60.0
_LONGEST_EXIT_S = 10
_QUIET = "-Dorg.slf4j.simpleLogger.defaultLogLevel=off"
_OPTIONS = ("-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", _QUIET)
STREAMS_GROUPS = [Path(__file__).parent / "StreamsGroups.java"]
STORE_CACHES = [Path(__file__).parent / "StoreCaches.java"]
CONFIG_VALUES = [Path(__file__).parent / "ConfigValues.java"]
DESCRIBED_TOPOLOGIES = [Path(__file__).parent / "DescribedTopologies.java"]
DSL_TOPOLOGIES = [
    Path(__file__).parent / f"{name}.java" for name in ("DslTopologies", "DslOperators", "DslProcessors", "Functions")
]
_MAINS = {
    HARNESS[0]: "org.apache.kafka.streams.processor.internals.Oracle",
    STREAMS_GROUPS[0]: "org.apache.kafka.coordinator.group.streams.assignor.StreamsGroups",
    STORE_CACHES[0]: "org.apache.kafka.streams.state.internals.StoreCaches",
    CONFIG_VALUES[0]: "org.apache.kafka.streams.ConfigValues",
    DESCRIBED_TOPOLOGIES[0]: "org.apache.kafka.streams.processor.internals.DescribedTopologies",
    DSL_TOPOLOGIES[0]: "org.apache.kafka.streams.DslTopologies",
}


class OracleFault(Exception):
    """The harness gave no answer: what is wrong is the line or the harness, never what is compared."""


class Oracle:
    """A context manager. `longest_answer_s`: the Java process is killed when a line takes longer.

    `jvm`: options in place of those for many short runs, for whoever measures. `harness`: HARNESS is Kafka Streams,
    STREAMS_GROUPS the broker's assignor for streams groups, STORE_CACHES stores with a record cache,
    DESCRIBED_TOPOLOGIES programs and the text of their `Topology#describe`, CONFIG_VALUES values of configs.
    `release`: the Kafka release whose classes answer.
    """

    def __init__(
        self,
        longest_answer_s: float = LONGEST_ANSWER_S,
        jvm: Sequence[str] = _OPTIONS,
        harness: Sequence[Path] = HARNESS,
        release: str = jars.DEFAULT_RELEASE,
    ) -> None:
        self._longest_answer_s = longest_answer_s
        main_class = _MAINS[harness[0]]
        self._command = [jars.java(), *jvm, "-cp", jars.compiled(*harness, release=release), main_class]
        self._process: subprocess.Popen[str] | None = None
        self._words: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the oracle

    def __enter__(self) -> Oracle:
        return self

    def __exit__(self, *_: object) -> None:
        self._end()
        self._words.close()

    def ask(self, line: Line) -> Line:
        """`line` with Kafka's `output`, the one it may have replaced. Raises OracleFault.

        A rebalance/1 with `leader_runs` has its leader run so often, and gets `leader_ms` and `bytes` as `output`.
        """
        process = self._process or self._start()
        commands, answers = known(process.stdin), known(process.stdout)
        watchdog = threading.Timer(self._longest_answer_s, process.kill)
        watchdog.start()
        try:
            commands.write(json.dumps(line, separators=(",", ":")) + "\n")
            commands.flush()
            answer = answers.readline()
        except OSError:
            answer = ""
        finally:
            watchdog.cancel()
        if not answer.endswith("\n"):
            self._end()
            raise OracleFault(f"no answer within {self._longest_answer_s:g} s: {self._last_words()}")
        answered: Line = json.loads(answer)
        if "failed" in answered:
            raise OracleFault(f"{line.get('id')}: {answered['failed']}: {self._last_words()}")
        return answered

    def _start(self) -> subprocess.Popen[str]:
        self._process = subprocess.Popen(
            self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._words,
            text=True,
            encoding="ascii",
            env={**os.environ, "LC_ALL": "C"},
        )
        return self._process

    def _end(self) -> None:
        """An idle process ends by itself when nothing more can come; any other is killed."""
        process, self._process = self._process, None
        if process is None:
            return
        try:
            process.communicate(timeout=_LONGEST_EXIT_S)
        except (subprocess.TimeoutExpired, OSError):
            process.kill()
            process.wait()

    def _last_words(self) -> str:
        size = self._words.seek(0, os.SEEK_END)
        self._words.seek(max(0, size - 2000))
        return self._words.read().decode(errors="replace")


def main(path: str, release: str = jars.DEFAULT_RELEASE) -> None:
    with Oracle(release=release) as oracle, Path(path).open(encoding="utf-8") as lines:
        for line in lines:
            print(json.dumps(oracle.ask(json.loads(line)), separators=(",", ":")))


if __name__ == "__main__":
    main(*sys.argv[1:])
