"""A bug that can be switched on: production code in which one thing is done wrong, for as long as a block runs.

`bugs.txt` has all bugs, and describes its form.
"""

import __future__

import ast
import pkgutil
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from tests.checkout import ROOT

BUGS_FILE = Path(__file__).with_name("bugs.txt")


@dataclass(frozen=True, slots=True)
class Change:
    """A change of one function. `module`, `name`: the place of the function; a method has the name of its class before
    its own. `right`, `wrong`: lines of the function as they are, and with the bug.
    """

    module: str
    name: str
    right: str
    wrong: str

    def owners(self) -> list[Any]:
        """The class of the method; or the modules that have the function, because they define or import it."""
        if "." in self.name:
            return [pkgutil.resolve_name(f"{self.module}:{self.name}".rpartition(".")[0])]
        function = getattr(import_module(self.module), self.name)
        return [each for each in [*sys.modules.values()] if getattr(each, "__dict__", {}).get(self.name) is function]

    @property
    def attribute(self) -> str:
        return self.name.rpartition(".")[2]

    def made(self) -> Any:
        """Returns the wrong function, property or class method. Its source is read from the file of the module, because
        the module may be compiled.
        """
        path = (ROOT / Path(*self.module.split("."))).with_suffix(".py")
        source = path.read_text(encoding="utf-8")
        right = _definition(source, self.name)
        lines = "".join(source.splitlines(keepends=True)[right.lineno - 1 : right.end_lineno])
        assert lines.count(self.right) == 1, f"{self.name} of {self.module} has to have these lines once:\n{self.right}"
        changed = _definition(source.replace(lines, lines.replace(self.right, self.wrong)), self.name)
        made: dict[str, Any] = {}
        annotations = __future__.annotations.compiler_flag
        code = compile(ast.Module([changed], []), str(path), "exec", flags=annotations, dont_inherit=True)
        exec(code, vars(import_module(self.module)), made)
        return made[self.attribute]


def _definition(source: str, name: str) -> Any:
    found: Any = ast.parse(source)
    for each in name.split("."):
        found = next(inner for inner in found.body if getattr(inner, "name", None) == each)
    return found


@dataclass(frozen=True, slots=True)
class Bug:
    name: str
    changes: tuple[Change, ...]

    @contextmanager
    def switched_on(self) -> Iterator[None]:
        """Of one bug at a time."""
        right = [(owner, each, vars(owner)[each.attribute]) for each in self.changes for owner in each.owners()]
        try:
            for owner, each, _ in right:
                setattr(owner, each.attribute, each.made())
            yield
        finally:
            for owner, each, original in right:
                setattr(owner, each.attribute, original)


def read_bugs(text: str) -> tuple[Bug, ...]:
    """Reads the bugs from text of the form of `bugs.txt`."""
    text = re.sub(r"^#.*\n", "", text, flags=re.MULTILINE)
    return tuple(_bug(*each) for each in re.findall(r"^bug (.*)\n((?:.+\n)+)", text, re.MULTILINE))


def _bug(name: str, changes: str) -> Bug:
    read = []
    for module, function, diff in re.findall(r"^([\w.]+):([\w.]+)\n((?:[-+ ].*\n)+)", changes, re.MULTILINE):
        lines = diff.splitlines(keepends=True)
        right, wrong = ("".join(line[1:] for line in lines if line[0] != other) for other in "+-")
        read.append(Change(module, function, right, wrong))
    return Bug(name, tuple(read))


BUGS = read_bugs(BUGS_FILE.read_text(encoding="utf-8"))
