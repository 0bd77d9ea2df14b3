"""Known vulnerabilities of the packages that the lock files name, taken out of a clone of PyPA's advisory database.

`python -m docs._tools.advisories CLONE FILE` writes them to a file that `python -m docs._tools.audit FILE` reads.
The file holds facts only (ids, versions, dates), and an empty list for a package without advisories: so the audit can
tell "nothing is known" from "nobody asked". The format of the database: https://ossf.github.io/osv-schema/.
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import yaml
from packaging.utils import canonicalize_name

from docs._tools.lock_files import LOCK_FILES, locked_names

ATTRIBUTION = "PyPA advisory database, https://github.com/pypa/advisory-database, CC BY 4.0. Extract of facts."


class NoAdvisoryDatabase(Exception):
    """What was named is no clone of the advisory database."""


def extract(clone: Path, packages: Iterable[str]) -> dict[str, Any]:
    """What the newest commit of the clone, bare or not, says of each package. Raises NoAdvisoryDatabase."""
    folders: dict[str, str] = {
        canonicalize_name(folder): folder for folder in _git(clone, "ls-tree", "--name-only", "HEAD:vulns").splitlines()
    }
    # committed in any zone; the audit counts days, so the day alone is kept
    committed = datetime.fromisoformat(_git(clone, "log", "-1", "--format=%cI").strip())
    return {
        "attribution": ATTRIBUTION,
        "commit": _git(clone, "rev-parse", "HEAD").strip(),
        "snapshot": committed.date().isoformat(),
        "packages": {
            name: _advisories(clone, folders[name], name) if name in folders else [] for name in sorted(packages)
        },
    }


def facts(document: Mapping[str, Any], package: str) -> dict[str, Any]:
    """What the audit needs of one advisory, for one of the packages that it may be about."""
    affected = [
        entry for entry in document.get("affected", []) if canonicalize_name(entry["package"]["name"]) == package
    ]
    found = {
        "id": document["id"],
        "aliases": sorted(document.get("aliases", [])),
        "ranges": [
            events["events"]
            for entry in affected
            for events in entry.get("ranges", [])
            if events["type"] == "ECOSYSTEM"
        ],
        "versions": sorted({version for entry in affected for version in entry.get("versions", [])}),
    }
    return found | ({"withdrawn": document["withdrawn"]} if "withdrawn" in document else {})


def _advisories(clone: Path, folder: str, package: str) -> list[dict[str, Any]]:
    files = _git(clone, "ls-tree", "--name-only", f"HEAD:vulns/{folder}").splitlines()
    documents = (_read(_git(clone, "show", f"HEAD:vulns/{folder}/{file}")) for file in sorted(files))
    return [facts(document, package) for document in documents]


def _read(document: str) -> dict[str, Any]:
    # Every scalar stays the text that it is: as a number, version 1.10 would be 1.1.
    found: dict[str, Any] = yaml.load(document, Loader=yaml.BaseLoader)
    return found


def _git(clone: Path, *arguments: str) -> str:
    asked = subprocess.run(["git", "-C", str(clone), *arguments], capture_output=True, text=True)
    if asked.returncode:
        raise NoAdvisoryDatabase(
            f"{clone} is no clone of https://github.com/pypa/advisory-database: git says: {asked.stderr.strip()}"
        )
    return asked.stdout


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m docs._tools.advisories", description=__doc__)
    parser.add_argument("clone", type=Path, help="a clone of https://github.com/pypa/advisory-database, bare or not")
    parser.add_argument("file", type=Path, help="where the extract goes")
    options = parser.parse_args()
    try:
        found = extract(options.clone, locked_names("".join(file.read_text() for file in LOCK_FILES)))
    except NoAdvisoryDatabase as problem:
        print(problem, file=sys.stderr)
        return 2
    options.file.parent.mkdir(parents=True, exist_ok=True)
    options.file.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    advisories = sum(len(known) for known in found["packages"].values())
    print(f"{options.file}: {advisories} advisories of {len(found['packages'])} packages, as of {found['snapshot']}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
