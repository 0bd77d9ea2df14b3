"""The lock files of the checkout, and the versions that they pin."""

import re
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parent.parent.parent
LOCK_FILES = (ROOT / "requirements.lock", ROOT / "requirements-java.lock")
_PIN = re.compile(r"^(?P<pin>[A-Za-z0-9._\[\],-]+==[^\\\s]+(?: ; [^\\]+)?)", re.MULTILINE)


def locked_names(lock: str) -> list[str]:
    """Sorted, each once, as PyPI compares names."""
    return sorted({name for name, _ in locked_versions(lock)})


def locked_versions(lock: str) -> list[tuple[str, Version]]:
    """Every pin; a package has several when each is for another Python."""
    requirements = [Requirement(line) for line in pinned(lock).splitlines()]
    return [(canonicalize_name(pin.name), Version(next(iter(pin.specifier)).version)) for pin in requirements]


def pinned(lock: str) -> str:
    """The lock's versions without their hashes: with hashes, pip would refuse the wheel, which has none."""
    return "".join(f"{found['pin'].strip()}\n" for found in _PIN.finditer(lock))
