"""Pictures: the same figure is the same bytes, and what cannot be drawn is one clear line."""

import importlib.util
from pathlib import Path

import pytest
from matplotlib.figure import Figure

from assignor.errors import InputError
from rebalance_analysis.figures import check_picture_path, new_figure, plain_text, save_figure


def figure(title: str = "a picture") -> Figure:
    drawn = new_figure(4, 3)
    axes = drawn.subplots()
    axes.bar([0, 1], [3, 4], hatch="//")
    axes.set_title(title)
    return drawn


@pytest.mark.parametrize(("name", "begins"), [("a.svg", b"<?xml"), ("a.PNG", b"\x89PNG")])
def test_should_write_the_same_bytes_for_the_same_figure(tmp_path: Path, name: str, begins: bytes) -> None:
    path = tmp_path / name
    assert save_figure(figure(), path) == path
    first = path.read_bytes()
    assert first.startswith(begins)
    save_figure(figure(), str(path))
    assert path.read_bytes() == first
    assert list(tmp_path.iterdir()) == [path]


def test_should_keep_text_as_text_and_tell_no_date(tmp_path: Path) -> None:
    content = save_figure(figure(plain_text("cost in $ or in $")), tmp_path / "a.svg").read_text()
    assert ">cost in $ or in $</text>" in content
    assert "<dc:date>" not in content


def test_should_draw_a_very_wide_picture_with_fewer_dots(tmp_path: Path) -> None:
    content = save_figure(new_figure(500, 1), tmp_path / "a.png").read_bytes()
    assert int.from_bytes(content[16:20]) == 30_000


def test_should_not_talk_of_missing_glyphs(tmp_path: Path, recwarn: pytest.WarningsRecorder) -> None:
    save_figure(figure("日本"), tmp_path / "a.png")
    assert not recwarn.list


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("a.pdf", r"a\.pdf: a picture's name ends in \.svg or \.png"),
        ("a", r"a: a picture's name ends in \.svg or \.png"),
        ("none/a.svg", r"a\.svg: there is no directory '.*none' to save the picture in"),
        ("folder.svg", r"folder\.svg: is a directory"),
    ],
)
def test_should_say_where_it_cannot_be_saved(tmp_path: Path, name: str, message: str) -> None:
    (tmp_path / "folder.svg").mkdir()
    with pytest.raises(InputError, match=message):
        check_picture_path(tmp_path / name)
    with pytest.raises(InputError, match=message):
        save_figure(figure(), tmp_path / name)
    assert [path.name for path in tmp_path.iterdir()] == ["folder.svg"]


def test_should_name_the_extra_when_matplotlib_is_not_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"pictures need matplotlib: pip install 'assignor\[batch\]'"):
        new_figure(1, 1)
    with pytest.raises(InputError, match=r"a.svg: pictures need matplotlib"):
        check_picture_path(tmp_path / "a.svg")
