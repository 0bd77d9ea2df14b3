"""Creates and saves pictures with matplotlib. The optional dependencies `batch` of this project include matplotlib.
Equal figures give equal files. An SVG file gets no date, and its ids are made with a fixed salt.
"""

from __future__ import annotations

import importlib.util
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

from assignor.errors import InputError
from operating_system.whole_files import input_errors, whole_file

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SUFFIXES = (".svg", ".png")

_DOTS_PER_INCH = 150
_LONGEST_SIDE_DOTS = 30_000
_HASH_SALT = "assignor"


def check_picture_path(path: str | Path) -> Path:
    """Checks that a picture can be saved at `path`. A command that takes a long time calls this function before its
    work begins. Raises InputError if matplotlib is not installed, or if the suffix is not .svg or .png. Also raises
    InputError if the path is a directory, or if the parent directory does not exist.
    """
    path = Path(path)
    _needs_matplotlib(str(path))
    if path.suffix.lower() not in SUFFIXES:
        raise InputError(f"a picture's name ends in {' or '.join(SUFFIXES)}", str(path))
    if not path.parent.is_dir():
        raise InputError(f"there is no directory {str(path.parent)!r} to save the picture in", str(path))
    if path.is_dir():
        raise InputError("is a directory, not a picture", str(path))
    return path


def new_figure(width: float, height: float) -> Figure:
    """Returns an empty figure. The layout of the figure leaves room for labels. `width`, `height`: the size in inches.
    Raises InputError when matplotlib is not installed.
    """
    _needs_matplotlib(None)
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def plain_text(text: str) -> str:
    """Escapes text that comes from recordings. Without escapes, matplotlib would show text between two $ as a
    formula.
    """
    return text.replace("$", r"\$")


def save_figure(figure: Figure, path: str | Path) -> Path:
    """Writes an .svg or .png file. If an error occurs, no file is written. Raises InputError if `check_picture_path`
    refuses the path, or if the file cannot be written.
    """
    path = check_picture_path(path)
    from matplotlib import rc_context

    kind = path.suffix[1:].lower()
    dots = min(_DOTS_PER_INCH, _LONGEST_SIDE_DOTS / max(figure.get_size_inches()))
    metadata = {"Date": None} if kind == "svg" else {"Software": None}
    style = rc_context({"svg.hashsalt": _HASH_SALT, "svg.fonttype": "none"})
    with input_errors("cannot be written", path), whole_file(path) as stream, style, warnings.catch_warnings():
        # ignore warnings about characters that matplotlib's font lacks: an SVG file keeps them as text
        warnings.filterwarnings("ignore", "Glyph .* missing")
        figure.savefig(stream, format=kind, dpi=dots, facecolor="white", metadata=metadata)
    return path


def _needs_matplotlib(where: str | None) -> None:
    if importlib.util.find_spec("matplotlib") is None:
        raise InputError("pictures need matplotlib: pip install 'assignor[batch]'", where)
