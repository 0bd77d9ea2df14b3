"""Compares this project with Kafka's answers: `python -m tests.dsl_vectors FILE...`, files of cases as JSON lines.

Ends with 0 if nothing differs that is not documented, with 1 if something does, with 2 for a file that cannot be read.
"""

import argparse
import json
import logging
import sys
from collections import Counter
from pathlib import Path
from typing import TextIO

from tests.dsl_vectors.cases import BadFile, Case, read_cases
from tests.dsl_vectors.judging import Judgement, Sums, Verdict, judge


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.dsl_vectors", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE", help="cases, .jsonl or .jsonl.gz")
    parser.add_argument("--different", type=Path, metavar="FILE", help="write what differs, a case a line")
    parser.add_argument("--show", metavar="ID", help="print one case, with both answers")
    chosen = parser.parse_args(arguments)
    logging.disable(logging.CRITICAL)  # cases fail on purpose, by the thousand
    try:
        if chosen.show is not None:
            return _show(chosen.files, chosen.show)
        if chosen.different is None:
            return _judge_all(chosen.files, None)
        with chosen.different.open("w", encoding="utf-8") as out:
            return _judge_all(chosen.files, out)
    except (BadFile, OSError) as error:
        print(error, file=sys.stderr)
        return 2
    finally:
        logging.disable(logging.NOTSET)


def _judge_all(files: list[Path], different: TextIO | None) -> int:
    total = Sums()
    for file in files:
        sums = Sums()
        for case in read_cases(file):
            judgement = judge(case)
            sums.add(judgement)
            if judgement.verdict is Verdict.DIFFERENT:
                _tell(case, judgement, different)
        _print_sums(file.name, sums)
        total.add_all(sums)
    print(_line("all", total), flush=True)
    return 1 if total.verdicts[Verdict.DIFFERENT] else 0


def _tell(case: Case, judgement: Judgement, different: TextIO | None) -> None:
    print(f"different: {case.id}", flush=True)
    if different is not None:
        found = {"id": case.id, "family": case.written["family"], "kind": case.written["kind"]}
        line = json.dumps({**found, "differences": judgement.differences}, ensure_ascii=False)
        different.write(f"{line}\n")
        different.flush()


def _line(name: str, sums: Sums) -> str:
    verdicts = sums.verdicts
    return (
        f"{name}: {sums.cases} cases, {sums.runnable} runnable, {verdicts[Verdict.EQUAL]} equal, "
        f"{verdicts[Verdict.DOCUMENTED]} documented, {verdicts[Verdict.DIFFERENT]} different, "
        f"{verdicts[Verdict.NOT_KNOWN]} not known"
    )


def _print_sums(name: str, sums: Sums) -> None:
    print(_line(name, sums), flush=True)
    for what, counts in (("documented", sums.documented), ("not known", sums.not_known)):
        for text, count in _sorted(counts):
            print(f"  {what}: {text}: {count}", flush=True)


def _sorted(counts: Counter[str]) -> list[tuple[str, int]]:
    return sorted(counts.items(), key=lambda each: (-each[1], each[0]))


def _show(files: list[Path], case_id: str) -> int:
    for file in files:
        for case in read_cases(file):
            if case.id == case_id:
                return _print_case(case)
    print(f"no file has a case {case_id}", file=sys.stderr)
    return 2


_ANSWER = ("outputs", "dropped_records", "stores", "internal", "error")


def _print_case(case: Case) -> int:
    """Both answers, topology and inputs, and the verdict."""
    judgement = judge(case)
    print(f"{case.id}: {case.written['family']}, {case.written['kind']}, configs {json.dumps(case.configs)}")
    for operator in case.operators:
        print(f"  {json.dumps(operator, ensure_ascii=False)}")
    for index, record in enumerate(case.inputs):
        print(f"input {index}: {json.dumps(record, ensure_ascii=False)}")
    _print_answer("Kafka", case.written)
    if judgement.run is not None:
        _print_answer("here", judgement.run.answer)
    print(f"{judgement.verdict}{': ' if judgement.reasons else ''}{'; '.join(judgement.reasons)}")
    for difference in judgement.differences:
        print(f"  {difference}")
    return 1 if judgement.verdict is Verdict.DIFFERENT else 0


def _print_answer(whose: str, answer: dict[str, object]) -> None:
    for part in _ANSWER:
        value = answer.get(part)
        for row in value if isinstance(value, list) else [value] if part in answer else ():
            print(f"{whose} {part}: {json.dumps(row, ensure_ascii=False)}")


if __name__ == "__main__":
    sys.exit(main())
