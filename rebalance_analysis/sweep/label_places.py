"""Places for short labels beside marks, so that none covers a mark or another label. All lengths are points."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

Mark = tuple[float, float, float]
"""x, y, radius."""

_GAP = 3.0
_DIRECTIONS = 16
_RINGS = 7
_LETTER_WIDTH = 0.66
_FAR = 8.0
_MARGIN = 2.0


class Label(NamedTuple):
    """`dx`, `dy`: from the centre of the mark to the centre of the text. `is_far`: a line should join the two."""

    text: str
    dx: float
    dy: float
    is_far: bool


class _Box(NamedTuple):
    left: float
    bottom: float
    right: float
    top: float

    def shared(self, other: _Box) -> float:
        width = min(self.right, other.right) - max(self.left, other.left)
        height = min(self.top, other.top) - max(self.bottom, other.bottom)
        return max(width, 0) * max(height, 0)


def place_labels(
    texts: Sequence[str], marks: Sequence[Mark], obstacles: Sequence[Mark], font_size: float
) -> list[Label]:
    """One label for each mark, in order: at the nearest free place, else where it covers least.

    `obstacles`: marks without a label.
    """
    taken = [_Box(x - radius, y - radius, x + radius, y + radius) for x, y, radius in (*marks, *obstacles)]
    labels = []
    for text, mark in zip(texts, marks, strict=True):
        label, box = _best(text, mark, marks, taken, font_size)
        taken.append(_Box(box.left - _MARGIN, box.bottom - _MARGIN, box.right + _MARGIN, box.top + _MARGIN))
        labels.append(label)
    return labels


def _best(text: str, mark: Mark, marks: Sequence[Mark], taken: Sequence[_Box], font_size: float) -> tuple[Label, _Box]:
    """Prefer to cover nothing, then to be nearer to its own mark than to any other, then to be near."""
    x, y, radius = mark
    reach = radius + _GAP + _RINGS * font_size + len(text) * font_size
    around = _Box(x - reach, y - reach, x + reach, y + reach)
    near = [other for other in taken if around.shared(other) > 0]
    near_marks = [other for other in marks if other != mark and math.dist(other[:2], mark[:2]) < 2 * reach]
    best: tuple[float, bool, float, float, _Box] | None = None
    for dx, dy in _places(text, radius, font_size):
        box = _box(text, x + dx, y + dy, font_size)
        covered = sum(box.shared(other) for other in near)
        is_astray = any(math.dist((x + dx, y + dy), other[:2]) < math.hypot(dx, dy) for other in near_marks)
        if best is None or (covered, is_astray) < best[:2]:
            best = (covered, is_astray, dx, dy, box)
        if (covered, is_astray) == (0, False):
            break
    assert best is not None, "there is a first place"
    _, is_astray, dx, dy, box = best
    return Label(text, dx, dy, is_astray or math.hypot(dx, dy) > radius + font_size + _FAR), box


def _box(text: str, x: float, y: float, font_size: float) -> _Box:
    half_width, half_height = len(text) * font_size * _LETTER_WIDTH / 2, font_size / 2
    return _Box(x - half_width, y - half_height, x + half_width, y + half_height)


def _places(text: str, radius: float, font_size: float) -> Iterator[tuple[float, float]]:
    """Places around the mark, ring by ring, starting at the upper right."""
    half_width, half_height = len(text) * font_size * _LETTER_WIDTH / 2, font_size / 2
    for ring in range(_RINGS):
        away = radius + _GAP + ring * font_size
        for step in range(_DIRECTIONS):
            angle = math.pi / 4 + step * 2 * math.pi / _DIRECTIONS
            yield (away + half_width) * math.cos(angle), (away + half_height) * math.sin(angle)
