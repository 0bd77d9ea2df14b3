"""The pictures of the explanation are those that the script draws, and can be read on any ground."""

import re
from xml.etree import ElementTree

import pytest

from docs._ext.pictures import DIRECTORY, PICTURES

SVG = "{http://www.w3.org/2000/svg}"


@pytest.mark.parametrize("name", sorted(PICTURES))
def test_should_be_what_the_script_draws(name: str) -> None:
    assert (DIRECTORY / name).read_text(encoding="utf-8") == PICTURES[name](), "run python -m docs._ext.pictures"


def test_should_have_no_picture_that_nobody_draws() -> None:
    assert {each.name for each in DIRECTORY.glob("*.svg")} == set(PICTURES)


@pytest.mark.parametrize("name", sorted(PICTURES))
def test_should_have_a_ground_of_its_own_under_text_that_lies_within_it(name: str) -> None:
    picture = ElementTree.fromstring(PICTURES[name]())
    width, height = int(picture.get("width", "0")), int(picture.get("height", "0"))
    ground = picture.find(f"{SVG}rect")

    assert ground is not None
    assert (ground.get("width"), ground.get("height"), ground.get("fill")) == (str(width), str(height), "#ffffff")
    for text in picture.findall(f"{SVG}text"):
        long = 0.6 * int(text.get("font-size", "0")) * len(text.text or "")  # of a wide font
        start = int(text.get("x", "0")) - (long / 2 if text.get("text-anchor") == "middle" else 0)
        assert start >= 0, text.text
        assert start + long <= width, text.text
        assert 0 < int(text.get("y", "0")) < height
        assert re.fullmatch("#[0-9a-f]{6}", text.get("fill", ""))
