"""Which modules setup.py compiles, and their source in place of a compiled form that is older.

Imports find a compiled module before its source. So whoever changes the source, to see whether a test notices, would
otherwise test what was compiled before.
"""

import re
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import EXTENSION_SUFFIXES, ModuleSpec
from importlib.util import spec_from_file_location
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).parent.parent
_SETUP = ROOT / "setup.py"


def compiled_modules() -> list[str]:
    """Those that setup.py names, as paths in the checkout without a suffix."""
    if not _SETUP.is_file():  # the tests are in an archive, on an executor of Spark
        return []
    named = re.findall(r'^    "([\w.]+\.[\w.]+)",$', _SETUP.read_text(encoding="utf-8"), re.MULTILINE)
    return [name.replace(".", "/") for name in named]


def compiled_file(module: str) -> Path | None:
    """None: not compiled."""
    beside = (ROOT / f"{module}{suffix}" for suffix in EXTENSION_SUFFIXES)
    return next((path for path in beside if path.exists()), None)


def is_older_than_its_source(module: str) -> bool:
    """False for one that is not compiled."""
    compiled = compiled_file(module)
    sources = [path for path in (ROOT / f"{module}.py", ROOT / f"{module}.pxd") if path.exists()]
    return compiled is not None and compiled.stat().st_mtime < max(path.stat().st_mtime for path in sources)


class _FromSource(MetaPathFinder):
    def __init__(self, modules: list[str]) -> None:
        self._files = {module.replace("/", "."): ROOT / f"{module}.py" for module in modules}

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        file = self._files.get(fullname)
        return None if file is None else spec_from_file_location(fullname, file)


def import_sources_that_have_changed() -> None:
    """If one is newer than what was compiled of it, all are imported as source: they were compiled for each other."""
    modules = compiled_modules()
    if any(map(is_older_than_its_source, modules)):
        sys.meta_path.insert(0, _FromSource(modules))
