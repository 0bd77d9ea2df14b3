"""The commands print what `transcripts.txt` has below them."""

import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.checkout import VECTORS
from tests.program import assignor

_RECORDING = re.compile(r"\{(\w+)\}")


def cases() -> Iterator[tuple[str, list[str]]]:
    """The name and the lines of each case."""
    text = Path(__file__).with_name("transcripts.txt").read_text(encoding="utf-8")
    whole = re.sub(r"\n {4}(?=\S)", " ", text.partition("\n\n")[2])
    for case in whole.rstrip().split("\n\n"):
        name, *lines = case.splitlines()
        lines = [line.replace("{4.4}", str(VECTORS / "kafka-4.4")) for line in lines]
        yield name, [_RECORDING.sub(rf"{VECTORS}/recordings/\1.jsonl.gz", line) for line in lines]


CASES = dict(cases())


@pytest.mark.parametrize("name", CASES)
def test_should_print_what_the_transcript_has(name: str) -> None:
    lines = CASES[name]
    starts = [place for place, line in enumerate(lines) if line.startswith("$ ")]
    for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
        check(lines[start], lines[start + 1 : end])


def check(command: str, wanted: Sequence[str]) -> None:
    ran = assignor(*shlex.split(command.removeprefix("$ ")))
    lines, words = ran.stdout.splitlines(), " ".join(ran.stdout.split())
    code = 0
    for kind, _, text in (line.partition(" ") for line in wanted):
        match kind:
            case "first" | "last":
                assert lines[0 if kind == "first" else -1] == text
            case "line":
                assert text in lines
            case "row":
                assert text.split() in [line.split() for line in lines]
            case "text":
                assert text in words
            case "no":
                assert text not in words
            case "error":
                begins, goes_on, _ = text.partition(" ...")
                assert ran.stderr.startswith(f"error: {begins}")
                assert goes_on or ran.stderr == f"error: {text}\n"
                assert ran.stdout == ""
                code = 2
            case "exit":
                code = int(text)
            case _:
                assert words.count(text.removeprefix("text ")) == int(kind)
    assert ran.returncode == code, ran.stderr
