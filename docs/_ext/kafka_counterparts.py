"""The public names of Kafka Streams, and what this project has in their place.

`kafka_public_names.json` has the public classes of Kafka Streams 4.3.1 with their methods, as `javap` lists them. A
test reads them from Kafka's jar again. A method that has the same name here, in Python's spelling, is found without an
entry. Every other name needs an entry in one of the tables below, and each name of ours in a table must exist. So the
page can neither leave out a name of Kafka nor name something that is not there.
"""

import inspect
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Unpack, get_args, get_origin, get_type_hints

from sphinx.errors import ExtensionError

import streams_runtime
import streams_runtime.dsl.streams
from docs._ext.kafka_counterpart_tables import CLASSES, INSTEAD, LACKS, METHODS
from docs._ext.markdown import code, table

PUBLIC_NAMES: Mapping[str, list[str]] = json.loads(
    Path(__file__).with_name("kafka_public_names.json").read_text(encoding="utf-8")
)


@dataclass(frozen=True)
class Counterpart:
    """`kafka`: a class, or a class and a method. `here`: Markdown, which has our names in backquotes. `is_missing`:
    True if this project has nothing in its place.
    """

    kafka: str
    here: str
    is_missing: bool = False


def missing_names() -> str:
    rows = [(code(each.kafka), each.here) for each in counterparts() if each.is_missing]
    return table(("Kafka Streams has", "here"), rows)


def kafka_names() -> str:
    rows = [(code(each.kafka), each.here) for each in counterparts() if not each.is_missing]
    return table(("Kafka Streams", "here"), rows)


def counterparts() -> Iterator[Counterpart]:
    """Raises ExtensionError for a name of Kafka without an entry, and for an entry that is not true."""
    unused = {*CLASSES, *METHODS, *INSTEAD, *LACKS}
    for name, methods in PUBLIC_NAMES.items():
        unused.discard(name)
        ours = CLASSES.get(name)
        if ours is None:
            yield _with_entry(name)
            continue
        yield Counterpart(name, _checked(code(ours), name))
        for method in methods:
            full = f"{name}.{method}"
            unused.discard(full)
            found = f"{ours}.{METHODS.get(full, in_python(method))}"
            has_entry = full in INSTEAD or full in LACKS
            if _exists(found) and not has_entry:
                yield Counterpart(full, code(found))
            elif has_entry and not _exists(found):
                yield _with_entry(full)
            else:
                what = "exists, so the entry is wrong" if has_entry else "does not exist"
                raise ExtensionError(f"{full}: {found} {what}")
    if unused:
        raise ExtensionError(f"entries for names that Kafka does not have: {', '.join(sorted(unused))}")


def in_python(name: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()


def _with_entry(name: str) -> Counterpart:
    if name in INSTEAD:
        return Counterpart(name, _checked(INSTEAD[name], name))
    if name in LACKS:
        return Counterpart(name, LACKS[name], is_missing=True)
    raise ExtensionError(f"{name} of Kafka Streams has no entry")


def _checked(text: str, entry: str) -> str:
    for name in re.findall(r"`([A-Z][\w.]*(?:\(\w+\))?|[a-z_]+_store(?:\(\w+\))?)`", text):
        if not _exists(name):
            raise ExtensionError(f"the entry of {entry} names {name}, which does not exist")
    return text


def _exists(name: str) -> bool:
    """`name`: a public name of `streams_runtime` or its DSL, an attribute of one, or a parameter such as
    `KStream.to(partitioner)`. Other names in backquotes, such as paths and configs, are not checked.
    """
    path, _, parameter = name.rstrip(")").partition("(")
    return any(_is_in(module, path, parameter) for module in (streams_runtime, streams_runtime.dsl.streams))


def _is_in(found: Any, path: str, parameter: str) -> bool:
    for part in path.split("."):
        annotations = getattr(found, "__annotations__", {})
        if not hasattr(found, part) and part not in annotations:
            return False
        found = getattr(found, part, annotations.get(part))
    return not parameter or parameter in _parameters(found)


def _parameters(function: Any) -> set[str]:
    """Returns the names of the parameters, also those of `**options: Unpack[...]`."""
    parameters = set(inspect.signature(function).parameters)
    for hint in get_type_hints(function).values() if inspect.isfunction(function) else ():
        if get_origin(hint) is Unpack:
            (options,) = get_args(hint)
            parameters |= get_type_hints(get_origin(options) or options).keys()
    return parameters
