"""Counting how many rounds equal what was recorded: `assignor assign --check`."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field

from assignor.rerun import Rerun, RerunRebalance

_DIFFERENCES_SHOWN = 10


@dataclass(slots=True)
class Tally:
    """`refused`: lines of a later release; `unusable`: lines that are wrong. `differences`: the first ones, as text."""

    total: int = 0
    compared: int = 0
    equal_after_decoding: int = 0
    compared_bytes: int = 0
    equal_to_the_byte: int = 0
    not_compared: int = 0
    refused: int = 0
    unusable: int = 0
    differences: list[str] = field(default_factory=list)
    refusals: dict[str, int] = field(default_factory=dict)

    def add_round(self, where: str, ran: Rerun) -> None:
        comparison = ran.comparison()
        if comparison is None:
            self.not_compared += 1
            return
        self.compared += 1
        self.equal_after_decoding += comparison.equal
        if isinstance(ran, RerunRebalance):
            self.compared_bytes += 1
            self.equal_to_the_byte += comparison.bytes_equal
        room = max(_DIFFERENCES_SHOWN - len(self.differences), 0)
        self.differences.extend(f"{where} {ran.id}: {text}" for text in comparison.differences[:room])

    def add_refused(self, reason: str) -> None:
        self.refused += 1
        self.refusals[reason] = self.refusals.get(reason, 0) + 1

    @property
    def all_equal(self) -> bool:
        return self.equal_after_decoding == self.compared and not self.refused

    def as_text(self) -> str:
        rows = [
            f"total                 {self.total}",
            f"equal after decoding  {_of(self.equal_after_decoding, self.compared)}",
            f"equal to the byte     {_of(self.equal_to_the_byte, self.compared_bytes)}",
            f"not compared          {self.not_compared}{' (led by another leader)' if self.not_compared else ''}",
            f"refused               {self.refused}{' (a later release)' if self.refused else ''}",
            f"unusable              {self.unusable}",
        ]
        rows += [f"refused: {reason} ({count} lines)" for reason, count in self.refusals.items()]
        rows += [f"difference: {text}" for text in self.differences]
        return "\n".join(rows)

    def as_document(self) -> dict[str, object]:
        return {**asdict(self), "all_equal": self.all_equal}


def _of(count: int, total: int) -> str:
    return f"{count} of {total} ({100 * count / total:.1f} %)" if total else "nothing to compare"
