"""The verdict on a case, and the sums over a file."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum

from tests.dsl_vectors.cases import Case, NotKnown
from tests.dsl_vectors.comparing import differences
from tests.dsl_vectors.documented import documented
from tests.dsl_vectors.running import Run, run


class Verdict(StrEnum):
    EQUAL = "equal"
    DOCUMENTED = "documented"
    DIFFERENT = "different"
    NOT_KNOWN = "not known"


@dataclass(frozen=True)
class Judgement:
    """`reasons`: which documented differences, or what is not known. `differences`: of the run as it is.

    `run`: None if the case cannot be run.
    """

    verdict: Verdict
    reasons: tuple[str, ...] = ()
    differences: tuple[str, ...] = ()
    run: Run | None = None


def judge(case: Case) -> Judgement:
    try:
        found = run(case)
    except NotKnown as missing:
        return Judgement(Verdict.NOT_KNOWN, (str(missing),))
    different = tuple(differences(case, found))
    if not different:
        return Judgement(Verdict.EQUAL, run=found)
    reasons = documented(case, found)
    verdict = Verdict.DOCUMENTED if reasons else Verdict.DIFFERENT
    return Judgement(verdict, reasons, different, found)


@dataclass
class Sums:
    verdicts: Counter[Verdict] = field(default_factory=Counter)
    documented: Counter[str] = field(default_factory=Counter)
    not_known: Counter[str] = field(default_factory=Counter)

    def add(self, judgement: Judgement) -> None:
        self.verdicts[judgement.verdict] += 1
        if judgement.verdict is Verdict.DOCUMENTED:
            self.documented.update(judgement.reasons)
        if judgement.verdict is Verdict.NOT_KNOWN:
            self.not_known.update(judgement.reasons)

    def add_all(self, other: Sums) -> None:
        self.verdicts.update(other.verdicts)
        self.documented.update(other.documented)
        self.not_known.update(other.not_known)

    @property
    def cases(self) -> int:
        return self.verdicts.total()

    @property
    def runnable(self) -> int:
        return self.cases - self.verdicts[Verdict.NOT_KNOWN]
