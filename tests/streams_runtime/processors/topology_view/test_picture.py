"""The picture: both file formats, and that it shows everything of the topology."""

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from assignor.errors import InputError
from assignor.topology.builder import TopologyBuilder
from streams_runtime.processors.topology import Topology
from streams_runtime.processors.topology_view.picture import draw_topology
from tests.streams_runtime.processors.recording_runtime import EmptyStoreBuilder, PassOn
from tests.streams_runtime.processors.test_topology import word_count


def texts(path: Path) -> list[str]:
    """All texts of an SVG, in the order in which they are drawn."""
    tree = ElementTree.parse(path)
    return [element.text or "" for element in tree.iter("{http://www.w3.org/2000/svg}text")]


def test_should_write_a_png_with_the_size_of_a_page(tmp_path: Path) -> None:
    path = word_count().draw(tmp_path / "pictures" / "word-count.png")

    header = path.read_bytes()[:24]
    width, height = int.from_bytes(header[16:20], "big"), int.from_bytes(header[20:24], "big")
    assert header[:8] == b"\x89PNG\r\n\x1a\n"
    assert 1500 < width < 4000
    assert 400 < height < 2000


def test_should_write_every_name_into_the_svg_as_text(tmp_path: Path) -> None:
    path = word_count().draw(str(tmp_path / "word-count.SVG"))

    legend = ["topic", "repartition topic", "source", "processor", "state store", "sink"]
    assert sorted(texts(path)) == sorted(
        [
            *("Subtopology 0", "text", "lines", "split", "to-words", "words"),
            *("Subtopology 1", "words", "words", "count", "counts", "logged", "to-counts", "word-counts"),
            *legend,
        ]
    )


def test_should_write_the_same_bytes_for_the_same_topology(tmp_path: Path) -> None:
    first, second = word_count().draw(tmp_path / "1.svg"), word_count().draw(tmp_path / "2.svg")

    assert first.read_bytes() == second.read_bytes()


def test_should_tell_how_a_store_is_kept(tmp_path: Path) -> None:
    topology = Topology().add_source("in", "a").add_processor("p", PassOn, "in")
    topology.add_state_store(EmptyStoreBuilder("plain", None), "p").add_state_store(EmptyStoreBuilder("table"), "p")
    topology.use_source_topic_as_changelog("table", "a")

    written = texts(topology.draw(tmp_path / "stores.svg"))

    assert "not logged" in written
    assert "restored from a" in written


def test_should_break_long_names_into_lines_and_shorten_what_is_still_too_long(tmp_path: Path) -> None:
    name = "KSTREAM-AGGREGATE-STATE-STORE-0000000003-repartition"
    topology = Topology().add_source(name, "a").add_processor("x" * 90, PassOn, name)

    written = texts(topology.draw(tmp_path / "long.svg"))

    assert written[written.index("KSTREAM-AGGREGATE-") :][:3] == [
        "KSTREAM-AGGREGATE-",
        "STATE-STORE-",
        "0000000003-repartition",
    ]
    assert written[written.index("x" * 22) :][:3] == ["x" * 22, "x" * 22, "x" * 21 + "…"]


def test_should_draw_a_line_from_the_writer_of_a_topic_to_its_reader(tmp_path: Path) -> None:
    without = Topology().add_source("in", "a").add_repartition_topic("r").add_sink("out", "r", "in")

    def dashed(path: Path) -> int:
        return len(re.findall(r'fill: none; stroke-dasharray: 4[^"]*stroke: #7d4fc4', path.read_text()))

    assert dashed(without.draw(tmp_path / "without.svg")) == 0
    assert dashed(word_count().draw(tmp_path / "between.svg")) == 1


def test_should_say_that_a_global_store_makes_no_tasks(tmp_path: Path) -> None:
    builder = TopologyBuilder().add_global_store("g", source="gs", topic="all", processor="gp")

    written = texts(draw_topology(builder.definition(), tmp_path / "global.svg"))

    assert "Subtopology 0 for a global store (makes no tasks)" in written
    assert "global" in written


@pytest.mark.parametrize(("name", "message"), [("t.pdf", "not .pdf"), ("t", "not without a suffix")])
def test_should_refuse_other_suffixes(tmp_path: Path, name: str, message: str) -> None:
    with pytest.raises(InputError, match=f"a picture is .png or .svg, {message}"):
        word_count().draw(tmp_path / name)


def test_should_refuse_to_draw_nothing(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="the topology has no nodes to draw"):
        Topology().draw(tmp_path / "t.png")
