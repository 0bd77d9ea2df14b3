"""docs/kafka/topology.md reads the description of a word count, and prints what the page shows."""

from dataclasses import replace
from pathlib import Path

import pytest

from streams_runtime import LONG, STRING, StreamsBuilder
from tests.docs.pages import blocks
from tests.docs.python_blocks import run

PAGE = "docs/kafka/topology.md"


def description() -> str:
    """The text of Kafka's Topology#describe for a word count. The DSL here gives the same text."""
    builder = StreamsBuilder()
    words = builder.stream("lines", STRING, STRING).flat_map_values(str.split)
    by_word = words.group_by(lambda _line, word: word, key_serde=STRING, value_serde=STRING, name="counts")
    by_word.count(store="counts").to_stream().to("word-counts", key_serde=STRING, value_serde=LONG)
    return builder.build().describe()


@pytest.mark.parametrize(("topics_are_known", "shown"), [(True, 0), (False, 1)])
def test_should_print_what_the_page_shows(
    topics_are_known: bool,
    shown: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "words.txt").write_text(description(), encoding="utf-8")
    (program,) = [block for block in blocks(PAGE) if block.language == "python"]
    results = [block.code for block in blocks(PAGE) if block.language == "text"]
    code = program.code if topics_are_known else program.code.replace(', "words", topics)', ', "words")')

    run([replace(program, code=code)], tmp_path, {})

    assert capsys.readouterr().out.rstrip("\n").endswith(results[shown].rstrip("\n"))
