"""The report of a run: what was done, which faults happened, and each promise, held or contradicted."""

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.history.calls import Call, FaultLine, History, Outcome, TasksLine, read_history
from tests.history.model import Contradiction, Judgement, judged

REPORT_FILE = "report.txt"
_MOST_LINES = 12
_SECOND_NS = 1_000_000_000


def judge(directory: Path) -> tuple[bool, str]:
    """Whether the history is valid, and the report, which is written beside it. Raises InputError, TooManyOrders."""
    history = read_history(directory)
    judgements = judged(history)
    text = "\n".join(report(history, judgements)) + "\n"
    (directory / REPORT_FILE).write_text(text, encoding="utf-8")
    return is_valid(judgements), text


def is_valid(judgements: Sequence[Judgement]) -> bool:
    return not any(each.contradictions for each in judgements)


def report(history: History, judgements: Sequence[Judgement]) -> Iterator[str]:
    yield _headline(history)
    yield ""
    yield from table(("calls", "answered", "refused", "no answer"), _operations(history))
    yield ""
    yield from table(("fault", "times", "longest"), _faults(history))
    yield ""
    yield from table(
        ("promise", "rests on", "verdict"),
        [(each.promise, f"{each.rests_on:,}", _verdict(each)) for each in judgements],
    )
    for each in judgements:
        shortest = each.shortest
        if shortest is not None:
            yield ""
            yield f"Broken: {each.promise}, in group {shortest.group}. The shortest contradiction:"
            yield from _witness(history, shortest)
    yield ""
    yield "The history is valid." if is_valid(judgements) else "The history is NOT valid."


def _headline(history: History) -> str:
    seconds = (_end_ns(history) - _begin_ns(history)) / _SECOND_NS
    return (
        f"Seed {history.settings.get('seed')}: {seconds / 60:.1f} minutes, {len(history.groups)} groups, "
        f"{len({call.client for call in history.calls})} lives of clients, {len(history.calls):,} calls, "
        f"{len(history.tasks):,} lines of threads, {len(history.faults)} faults"
    )


def _operations(history: History) -> list[tuple[str, ...]]:
    counts: dict[str, Counter[Outcome]] = {}
    for call in history.calls:
        counts.setdefault(call.operation, Counter())[call.outcome] += 1
    return [
        (
            operation,
            *(f"{counts[operation][outcome]:,}" for outcome in (Outcome.ANSWERED, Outcome.REFUSED, Outcome.UNKNOWN)),
        )
        for operation in sorted(counts)
    ]


def _faults(history: History) -> list[tuple[str, ...]]:
    of_kind: dict[str, list[FaultLine]] = {}
    for fault in history.faults:
        of_kind.setdefault(fault.fault, []).append(fault)
    return [
        (kind, str(len(each)), f"{max(fault.end_ns - fault.begin_ns for fault in each) / _SECOND_NS:.1f} s")
        for kind, each in sorted(of_kind.items())
    ]


def _verdict(judgement: Judgement) -> str:
    if judgement.contradictions:
        return f"BROKEN {len(judgement.contradictions)} times"
    return "held" if judgement.rests_on else "not seen"


def _witness(history: History, contradiction: Contradiction) -> Iterator[str]:
    if contradiction.said:
        yield f"  {contradiction.said}"
    for line in contradiction.lines[:_MOST_LINES]:
        yield f"  {told(line, _begin_ns(history))}"
    if len(contradiction.lines) > _MOST_LINES:
        yield f"  and {len(contradiction.lines) - _MOST_LINES} lines more"


def told(line: Call | TasksLine | FaultLine, since_ns: int) -> str:
    """One line for people. Times are seconds since `since_ns`."""
    match line:
        case Call():
            times = f"{_s(line.begin_ns, since_ns)} to {_s(line.end_ns, since_ns)}"
            what = f"{line.client} {line.operation} {_short(line.arguments)}"
            said = {Outcome.ANSWERED: "answered", Outcome.REFUSED: "refused", Outcome.UNKNOWN: "no answer"}[
                line.outcome
            ]
            return f"{line.where} [{times}] {what}: {said} {_short(line.answer)}"
        case TasksLine():
            owns = f"member {line.member_id or 'none'}, generation {line.generation_id}"
            tasks = f"active {' '.join(line.active) or 'none'}, standby {' '.join(line.standby) or 'none'}"
            about = f" {line.task}" if line.task else ""
            who = f"{line.client} {line.thread}"
            return f"{line.where} [{_s(line.at_ns, since_ns)}] {who} {line.event}{about}: {owns}, {tasks}"
        case FaultLine():
            times = f"{_s(line.begin_ns, since_ns)} to {_s(line.end_ns, since_ns)}"
            return f"{line.where} [{times}] fault {line.fault} of {line.target}"


def _short(document: object) -> str:
    text = str(document)
    return text if len(text) <= 400 else text[:400] + "..."


def _s(at_ns: int, since_ns: int) -> str:
    return f"{(at_ns - since_ns) / _SECOND_NS:.3f} s"


def _begin_ns(history: History) -> int:
    return min((call.begin_ns for call in history.calls), default=0)


def _end_ns(history: History) -> int:
    return max((call.end_ns for call in history.calls), default=0)


def table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> Iterator[str]:
    """The first column to the left, numbers to the right, and words of the last column to the left."""
    widths = [max(len(row[column]) for row in (head, *rows)) for column in range(len(head))]
    for row in (head, tuple("-" * width for width in widths), *rows):
        cells = [
            cell.ljust(width) if not column or not _is_number(rows, column) else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        yield "  ".join(cells).rstrip()


def _is_number(rows: Sequence[tuple[str, ...]], column: int) -> bool:
    return all(row[column][:1].isdigit() for row in rows)
