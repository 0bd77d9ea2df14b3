"""The pictures of docs/explanation: `python -m docs._ext.pictures` draws them, and a test compares them.

Every picture has a light ground of its own and dark text, so it can be read on a light page and on a dark one, on this
site and on a git forge. Text is text, not outlines.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

DIRECTORY = Path(__file__).parents[1] / "explanation"
_INK, _GROUND, _LINE, _FAINT = "#1b2733", "#ffffff", "#8795a3", "#eef2f6"
_FILLS = {"active": "#1f5fa8", "standby": "#cfe3f7", "warm-up": "#ffe1a8", "restoring": "#ffc2b3"}
_FONT = "font-family='system-ui, sans-serif'"


@dataclass(frozen=True, slots=True)
class Process:
    """One box of a frame. `copies`: task and role of each copy it holds. `note`: what it is doing."""

    name: str
    copies: tuple[tuple[str, str], ...] = ()
    note: str = ""
    dead: bool = False


@dataclass(frozen=True, slots=True)
class Frame:
    """One moment: what is to be seen, in a sentence, and the processes at that time."""

    caption: str
    processes: tuple[Process, ...]


@dataclass(frozen=True, slots=True)
class Arrow:
    """One message of a sequence, from lane to lane; the same lane twice is something that happens there."""

    sender: int
    receiver: int
    text: str


def takeover() -> str:
    a = (("0_0", "active"), ("0_1", "standby"))
    return _frames(
        "A process dies and its standby takes over",
        (
            Frame("1. Each task runs on one process. The other process keeps a standby of it.",
                  (Process("A", a), Process("B", (("0_1", "active"), ("0_0", "standby"))), Process("C"))),
            Frame("2. B dies. Its connection breaks, and the coordinator takes its member out of the group.",
                  (Process("A", a), Process("B", dead=True), Process("C"))),
            Frame("3. A has a standby of 0_1 that has caught up. It reads the last changes and runs 0_1.",
                  (Process("A", (("0_0", "active"), ("0_1", "active"))), Process("B", dead=True),
                   Process("C", (("0_0", "standby"), ("0_1", "standby")), "restores both"))),
            Frame("4. C has caught up, so 0_1 may move there. Each task has a standby again.",
                  (Process("A", a), Process("B", dead=True), Process("C", (("0_1", "active"), ("0_0", "standby"))))),
        ),
    )  # fmt: skip


def warm_up() -> str:
    both = (("0_0", "active"), ("0_1", "active"))
    return _frames(
        "A process joins and warms up before it gets a task",
        (
            Frame("1. A runs both tasks. B joins. It has nothing on its disk.", (Process("A", both), Process("B"))),
            Frame("2. B should run 0_1, but it is far behind. So A keeps 0_1, and B warms up.",
                  (Process("A", both), Process("B", (("0_1", "warm-up"),), "reads the changelog"))),
            Frame("3. A probing rebalance asks how far B is. Its lag is within acceptable.recovery.lag.",
                  (Process("A", both), Process("B", (("0_1", "warm-up"),), "has caught up"))),
            Frame("4. A gives 0_1 up. A follow-up rebalance gives it to B, which runs it at once.",
                  (Process("A", (("0_0", "active"),)), Process("B", (("0_1", "active"),)))),
        ),
    )  # fmt: skip


def rebalance() -> str:
    return _sequence(
        "One rebalance, from a join to running tasks",
        ("member of A", "coordinator", "member of B"),
        (
            Arrow(0, 1, "heartbeat, held open"),
            Arrow(2, 1, "subscription: what B has (a join)"),
            Arrow(1, 0, "answer to the heartbeat: rejoin"),
            Arrow(0, 1, "subscription: tasks that A owns, offset sums"),
            Arrow(1, 1, "the assignor decides who runs what"),
            Arrow(1, 0, "assignment without 0_1"),
            Arrow(1, 2, "assignment: nothing yet, 0_1 is still A's"),
            Arrow(0, 0, "commits 0_1 and closes it"),
            Arrow(0, 1, "subscription without 0_1 (the follow-up)"),
            Arrow(2, 1, "subscription"),
            Arrow(1, 2, "assignment: 0_1"),
            Arrow(2, 2, "claims its input, opens its stores, runs 0_1"),
        ),
    )


def commit() -> str:
    return _sequence(
        "One commit under exactly-once",
        ("task on A", "log", "task on B (new owner)"),
        (
            Arrow(0, 1, "begins a transaction"),
            Arrow(0, 1, "results, and changes of the stores"),
            Arrow(0, 1, "offsets of the input; commit"),
            Arrow(1, 1, "all of it becomes visible at one moment"),
            Arrow(2, 1, "claims the input partitions of the task"),
            Arrow(0, 1, "a late commit of the old owner"),
            Arrow(1, 0, "refused: somebody else has the claim"),
            Arrow(2, 1, "reads the committed offset, goes on from there"),
        ),
    )


PICTURES: Mapping[str, Callable[[], str]] = {
    "takeover.svg": takeover, "warm-up.svg": warm_up, "rebalance.svg": rebalance, "commit.svg": commit,
}  # fmt: skip


def main() -> None:
    for name, drawn in PICTURES.items():
        (DIRECTORY / name).write_text(drawn(), encoding="utf-8")


def _frames(title: str, frames: Sequence[Frame]) -> str:
    """One row for each frame: its caption, then its processes from left to right, then what the colours mean."""
    box, gap, row = 190, 20, 128
    boxes = max(len(each.processes) for each in frames) * (box + gap) - gap
    longest_caption = max(int(8.4 * len(each.caption)) for each in frames)  # in a wide font
    width = 40 + max(boxes, longest_caption)
    parts = []
    for number, frame in enumerate(frames):
        top = 52 + number * row
        parts.append(_text(20, top, frame.caption))
        for place, process in enumerate(frame.processes):
            parts.extend(_process(20 + place * (box + gap), top + 12, box, process))
    bottom = 52 + len(frames) * row
    roles = [
        role
        for role in _FILLS
        if any(copy[1] == role for frame in frames for each in frame.processes for copy in each.copies)
    ]
    for place, role in enumerate(roles):
        parts.append(_rectangle(20 + place * 120, bottom - 12, 16, 16, _FILLS[role]))
        parts.append(_text(42 + place * 120, bottom + 1, role))
    return _picture(title, width, bottom + 20, parts)


def _process(left: int, top: int, width: int, process: Process) -> list[str]:
    dashes = " stroke-dasharray='5 4'" if process.dead else ""
    parts = [
        f"<rect x='{left}' y='{top}' width='{width}' height='84' rx='6' fill='{_FAINT}' stroke='{_LINE}'{dashes}/>",
        _text(left + 12, top + 22, f"process {process.name}{': dead' if process.dead else ''}", weight="600"),
    ]
    for place, (task, role) in enumerate(process.copies):
        x = left + 12 + place * 60
        parts.append(_rectangle(x, top + 32, 52, 22, _FILLS[role]))
        colour = _GROUND if role == "active" else _INK
        parts.append(_text(x + 26, top + 47, task, colour=colour, anchor="middle"))
    if process.note:
        parts.append(_text(left + 12, top + 74, process.note, size=12))
    return parts


def _sequence(title: str, lanes: Sequence[str], arrows: Sequence[Arrow]) -> str:
    """Lanes from left to right, time from top to bottom, one line for each message."""
    lane, row, margin = 340, 40, 190
    width, height = 2 * margin + (len(lanes) - 1) * lane, 96 + len(arrows) * row
    parts = [
        "<defs><marker id='head' viewBox='0 0 8 8' refX='8' refY='4' markerWidth='8' markerHeight='8' orient='auto'>"
        f"<path d='M0 0 8 4 0 8z' fill='{_INK}'/></marker></defs>"
    ]
    for place, name in enumerate(lanes):
        x = margin + place * lane
        parts.append(_text(x, 58, name, weight="600", anchor="middle"))
        parts.append(f"<line x1='{x}' y1='68' x2='{x}' y2='{height - 16}' stroke='{_LINE}'/>")
    for number, arrow in enumerate(arrows):
        y = 98 + number * row
        start, end = margin + arrow.sender * lane, margin + arrow.receiver * lane
        if start == end:
            parts.append(_rectangle(start - 175, y - 18, 350, 26, _FAINT))
            parts.append(_text(start, y, arrow.text, size=13, anchor="middle"))
            continue
        parts.append(f"<line x1='{start}' y1='{y}' x2='{end}' y2='{y}' stroke='{_INK}' marker-end='url(#head)'/>")
        parts.append(_text((start + end) // 2, y - 6, arrow.text, size=13, anchor="middle"))
    return _picture(title, width, height, parts)


def _picture(title: str, width: int, height: int, parts: Sequence[str]) -> str:
    lines = [
        f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {width} {height}' "
        f"width='{width}' height='{height}' role='img'>",
        f"<title>{escape(title)}</title>",
        f"<rect width='{width}' height='{height}' rx='8' fill='{_GROUND}'/>",
        _text(20, 26, title, size=16, weight="600"),
        *parts,
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def _rectangle(x: int, y: int, width: int, height: int, fill: str) -> str:
    return f"<rect x='{x}' y='{y}' width='{width}' height='{height}' rx='4' fill='{fill}' stroke='{_LINE}'/>"


def _text(
    x: int, y: int, text: str, *, size: int = 14, weight: str = "400", colour: str = _INK, anchor: str = "start"
) -> str:
    return (
        f"<text x='{x}' y='{y}' {_FONT} font-size='{size}' font-weight='{weight}' fill='{colour}' "
        f"text-anchor='{anchor}'>{escape(text)}</text>"
    )


if __name__ == "__main__":
    main()
