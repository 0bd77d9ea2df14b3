"""Whether a version of the lock files has a known vulnerability. `make audit` calls it in one of two ways:

    python -m docs._tools.audit --answers FILE   FILE is what pip-audit wrote, which has asked PyPI
    python -m docs._tools.audit FILE             FILE is what `python -m docs._tools.advisories` wrote: no network

Exit code 1 says that a pinned version is vulnerable or that an extract knows nothing of a package; 2, that the audit
could not be done. Where PyPI cannot be asked, the audit of `--answers` says of how many versions nothing is known, and
fails only if it is `--required`. An extract older than 90 days is a warning only: time alone must not fail a build. A
finding may be accepted for a while, in pyproject.toml:

    [[tool.audit.accepted]]
    id = "PYSEC-2023-48"
    reason = "multipart forms are not read"
    until = 2027-01-31
"""

import argparse
import json
import sys
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from docs._tools.lock_files import LOCK_FILES, ROOT, locked_versions

OLD_AFTER_DAYS = 90
HOW_TO_MAKE = (
    "Clone https://github.com/pypa/advisory-database and write the file: python -m docs._tools.advisories CLONE FILE"
)


class AuditImpossible(Exception):
    """What the audit reads is missing or cannot be read."""


@dataclass(frozen=True)
class Accepted:
    """A finding that is let through up to and including a day."""

    id: str
    reason: str
    until: date


@dataclass(frozen=True)
class AuditReport:
    """Lines to print: `failures` fail the build, `notes` do not."""

    failures: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def audit(
    pins: Sequence[tuple[str, Version]], extract: Mapping[str, Any], accepted: Iterable[Accepted], today: date
) -> AuditReport:
    """Each pin against the extract. Withdrawn advisories count for nothing."""
    report = AuditReport()
    waived = {waiver.id: waiver for waiver in accepted}
    used: set[str] = set()
    known = extract["packages"]
    age = (today - date.fromisoformat(extract["snapshot"])).days
    if age > OLD_AFTER_DAYS:
        report.notes.append(
            f"warning: the advisories are of {extract['snapshot']}, {age} days old: newer ones are not known. "
            f"{HOW_TO_MAKE}"
        )
    for name in sorted({name for name, _ in pins} - known.keys()):
        report.failures.append(f"{name}: the advisories were not taken for this package. {HOW_TO_MAKE}")
    for name, version in pins:
        for advisory in known.get(name, []):
            if "withdrawn" in advisory or not is_affected(version, advisory):
                continue
            waiver = next((waived[alias] for alias in names_of(advisory) if alias in waived), None)
            if waiver:
                used.add(waiver.id)
            if waiver and today <= waiver.until:
                report.notes.append(
                    f"accepted until {waiver.until}: {name} {version}, {advisory['id']}: {waiver.reason}"
                )
            else:
                ended = f"; accepting it ended on {waiver.until}" if waiver else ""
                report.failures.append(
                    f"{name} {version}: {' = '.join(names_of(advisory))}, {mended(version, advisory)}{ended}"
                )
    report.notes.extend(
        f"warning: {unused} is accepted in pyproject.toml, but nothing has it: take the entry out"
        for unused in sorted(waived.keys() - used)
    )
    return report


def audit_of_answers(
    pins: Sequence[tuple[str, Version]],
    answers: Sequence[Mapping[str, Any]],
    accepted: Iterable[Accepted],
    today: date,
    required: bool,
) -> tuple[AuditReport, str]:
    """What pip-audit was told of each pin, and how many of them somebody knew."""
    told: dict[str, Mapping[str, Any]] = {
        canonicalize_name(answer["name"]): answer for answer in answers if "skip_reason" not in answer
    }
    packages: dict[str, list[dict[str, Any]]] = {
        name: [
            {
                "id": found["id"],
                "aliases": found.get("aliases", []),
                "versions": [str(version)],
                "ranges": [[{"fixed": fix} for fix in found.get("fix_versions", [])]],
            }
            for found in told[name]["vulns"]
        ]
        for name, version in pins
        if name in told
    }
    known = [(name, version) for name, version in pins if name in packages]
    report = audit(known, {"snapshot": today.isoformat(), "packages": packages}, accepted, today)
    unknown = len(pins) - len(known)
    if unknown:
        line = f"NOT AUDITED: PyPI told nothing of {unknown} of {len(pins)} versions, as behind a mirror. {HOW_TO_MAKE}"
        (report.failures if required else report.notes).append(line)
    return report, f"PyPI was asked on {today}, and knew {len(known)}"


def names_of(advisory: Mapping[str, Any]) -> list[str]:
    return [advisory["id"], *advisory["aliases"]]


def is_affected(version: Version, advisory: Mapping[str, Any]) -> bool:
    """As OSV evaluates: listed by name, or inside a range; a last affected version is itself affected."""
    return any(version == _read(listed) for listed in advisory["versions"]) or any(
        _is_inside(version, events) for events in advisory["ranges"]
    )


def mended(version: Version, advisory: Mapping[str, Any]) -> str:
    fixes = [_read(event["fixed"]) for events in advisory["ranges"] for event in events if "fixed" in event]
    later = sorted(fix for fix in fixes if fix is not None and fix > version)
    return f"fixed in {later[0]}" if later else "no fixed version is known"


def _is_inside(version: Version, events: Sequence[Mapping[str, str]]) -> bool:
    told = [(_read(at), kind) for event in events for kind, at in event.items()]
    inside = False
    # A range that begins where another ends: the later word counts, so `introduced` is read after `fixed`.
    for at, kind in sorted(
        ((at, kind) for at, kind in told if at is not None), key=lambda one: (one[0], one[1] == "introduced")
    ):
        if kind == "introduced" and version >= at:
            inside = True
        elif (kind == "fixed" and version >= at) or (kind == "last_affected" and version > at):
            inside = False
    return inside


def _read(version: str) -> Version | None:
    """None for what is no version of PyPI: a pin never equals it."""
    try:
        return Version("0.dev0" if version == "0" else version)  # OSV: "0" is before every version
    except InvalidVersion:
        return None


def accepted_findings(pyproject: str) -> list[Accepted]:
    """Raises AuditImpossible for an entry without an id, a reason or an end."""
    entries = tomllib.loads(pyproject)["tool"].get("audit", {}).get("accepted", [])
    for entry in entries:
        if not (entry.get("id") and entry.get("reason") and type(entry.get("until")) is date):
            raise AuditImpossible(
                f"pyproject.toml, [[tool.audit.accepted]] {entry}: "
                "an id, a reason and a day are needed (until = 2027-01-31)"
            )
    return [Accepted(entry["id"], entry["reason"], entry["until"]) for entry in entries]


def read_extract(file: Path) -> dict[str, Any]:
    """Raises AuditImpossible."""
    try:
        found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise AuditImpossible(f"There are no advisories in {file}, so nothing was audited. {HOW_TO_MAKE}") from None
    except (OSError, ValueError) as problem:
        raise AuditImpossible(f"{file} cannot be read, so nothing was audited: {problem}") from None
    if not {"snapshot", "packages"} <= found.keys():
        raise AuditImpossible(f"{file} is no extract of advisories, so nothing was audited. {HOW_TO_MAKE}")
    return found


def read_answers(file: Path) -> list[dict[str, Any]]:
    """What pip-audit wrote; nothing when it wrote nothing, because PyPI did not answer. Raises AuditImpossible."""
    if not file.exists():
        return []
    try:
        found: list[dict[str, Any]] = json.loads(file.read_text(encoding="utf-8"))["dependencies"]
    except (OSError, ValueError, LookupError, TypeError) as problem:
        raise AuditImpossible(f"{file} is no answer of pip-audit, so nothing was audited: {problem}") from None
    return found


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m docs._tools.audit", description=__doc__.partition("\n")[0])
    parser.add_argument("file", type=Path, help="the advisories")
    parser.add_argument("--answers", action="store_true", help="the file is pip-audit's")
    parser.add_argument("--required", action="store_true", help="fail when nothing is known of a version")
    options = parser.parse_args()
    pins = locked_versions("".join(file.read_text(encoding="utf-8") for file in LOCK_FILES))
    today = datetime.now(UTC).date()
    try:
        accepted = accepted_findings((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
        if options.answers:
            report, source = audit_of_answers(pins, read_answers(options.file), accepted, today, options.required)
        else:
            extract = read_extract(options.file)
            report, source = audit(pins, extract, accepted, today), f"advisories of {extract['snapshot']}"
    except AuditImpossible as problem:
        print(problem, file=sys.stderr)
        return 2
    for line in [*report.notes, *report.failures]:
        print(line)
    print(f"{len(pins)} pinned versions, {len(report.failures)} failures; {source}")
    return 1 if report.failures else 0


if __name__ == "__main__":
    sys.exit(main())
