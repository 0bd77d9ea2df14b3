"""What a run shows, and what breaks a promise."""

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tests.history.judge import table

VALID = "valid"
_MOST_SAID = 5


@dataclass(frozen=True, slots=True)
class Happened:
    """One fault. `away_ms`: by group, the longest time without service until all had settled; `still_ms`: in which no
    word was counted, None without words. `generations`: how many rebalances there were, and `needs_rebalances`: because
    members came or went. `took_s`: until it was settled.
    """

    kind: str
    what: str
    away_ms: Mapping[str, float]
    still_ms: float | None
    generations: int
    took_s: float
    needs_rebalances: bool

    @property
    def worst_ms(self) -> float:
        return max(self.away_ms.values(), default=0.0)


@dataclass(slots=True)
class Findings:
    """`broken`: by promise, what contradicts it. `words`: the report of the group that counts words."""

    broken: dict[str, list[str]] = field(default_factory=dict)
    words: str = ""
    left_out: tuple[str, ...] = ()

    @property
    def is_valid(self) -> bool:
        return not any(self.broken.values())


def report(happened: Sequence[Happened], findings: Findings) -> Iterator[str]:
    if findings.words:
        yield findings.words
        yield ""
    yield from _by_kind(happened)
    yield ""
    yield from _by_group(happened)
    yield ""
    yield from table(("promise", "broken"), [(promise, str(len(said))) for promise, said in findings.broken.items()])
    for promise, said in findings.broken.items():
        for each in said[:_MOST_SAID]:
            yield f"  {promise}: {each}"
    for kind in findings.left_out:
        yield f"left out: {kind}, which needs root, or the word count"
    yield ""
    if findings.is_valid:
        yield VALID
    else:
        yield "NOT valid: " + "; ".join(
            f"{promise}: {len(said)} times" for promise, said in findings.broken.items() if said
        )


def _by_kind(happened: Sequence[Happened]) -> Iterator[str]:
    rows = []
    for kind in dict.fromkeys(each.kind for each in happened):
        of_kind = [each for each in happened if each.kind == kind]
        worst = max(of_kind, key=lambda each: each.worst_ms)
        still = [each.still_ms for each in of_kind if each.still_ms is not None]
        rows.append(
            (
                kind,
                str(len(of_kind)),
                _seconds(worst.worst_ms),
                _seconds(statistics.median(each.worst_ms for each in of_kind)),
                _seconds(max(still)) if still else "-",
                str(sum(each.generations for each in of_kind)),
                str(sum(each.generations for each in of_kind if not each.needs_rebalances)),
                f"{statistics.median(each.took_s for each in of_kind):.1f}",
            )
        )
    head = ("fault", "times", "no service, s", "median, s", "no words, s", "rebalances", "needless", "settled after, s")
    yield from table(head, sorted(rows))


def _by_group(happened: Sequence[Happened]) -> Iterator[str]:
    rows = []
    for group in dict.fromkeys(group for each in happened for group in each.away_ms):
        worst = max(happened, key=lambda each: each.away_ms.get(group, 0.0))
        rows.append((group, _seconds(worst.away_ms[group]), worst.kind))
    yield from table(("group", "longest without service, s", "in"), sorted(rows))


def _seconds(ms: float) -> str:
    return f"{ms / 1000:.2f}"
