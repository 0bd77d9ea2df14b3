"""Changes as people type them, in options and in forms: `3x4`, `P=2`, `P/0_3=5000`.

`where` names the option in errors; empty where a form says beside its field what is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from assignor.errors import InputError
from assignor.recording.fields import as_offset, as_task_id
from rebalance_analysis.what_if.changes import EVERY_PROCESS, MAX_INSTANCES, AddedInstances, check_added

Value = TypeVar("Value")


def typed_pairs(
    texts: Iterable[str], where: str, form: str, read: Callable[[str, str], tuple[str, Value]]
) -> dict[str, Value]:
    """`key=number` texts; the key may contain `=`. `form`: what they look like. Raises InputError."""
    return _pairs((text.rpartition("=") for text in texts), where, form, read)


def typed_configs(texts: Iterable[str], where: str) -> dict[str, str]:
    """`key=value` texts; the value may contain `=`. Raises InputError."""
    return _pairs((text.partition("=") for text in texts), where, "KEY=VALUE", lambda key, value: (key, value))


def _pairs(
    parts: Iterable[tuple[str, str, str]], where: str, form: str, read: Callable[[str, str], tuple[str, Value]]
) -> dict[str, Value]:
    pairs: dict[str, Value] = {}
    for key, equals, value in parts:
        if not equals or not key.strip():
            raise InputError(f"must be {form}, not {f'{key}{equals}{value}'[:80]!r}", where)
        name, read_value = read(key.strip(), value.strip())
        if name in pairs and pairs[name] != read_value:
            raise InputError(f"{name} is given twice", where)
        pairs[name] = read_value
    return pairs


def typed_threads(texts: Iterable[str], where: str) -> dict[str, int]:
    """`P=N`, or `N` for every process. Raises InputError."""
    with_process = [text if "=" in text else f"{EVERY_PROCESS}={text}" for text in texts]
    return typed_pairs(with_process, where, "[P=]N", lambda process, value: (process, _count(value, where)))


def typed_lags(texts: Iterable[str], where: str) -> dict[str, int]:
    """`TASK=N`: a task or *, on every process or, after P/, on one. Raises InputError."""

    def read(key: str, value: str) -> tuple[str, int]:
        process, slash, task = key.rpartition("/")
        if slash and not process:
            raise InputError(f"must be P/TASK=N, not {key}={value}", where)
        if task != EVERY_PROCESS:
            as_task_id(task, where)
        return key, as_offset(typed_number(value, where), where)

    return typed_pairs(texts, where, "TASK=N", read)


def typed_instances(text: str, where: str) -> AddedInstances:
    """`NxT[,TAG=V]`. Raises InputError."""
    size, *tags = text.split(",")
    count, times, threads = size.strip().partition("x")
    if not count or (times and not threads):
        raise InputError(f"must be NxT, for example 3x4, not {text!r}", where)
    added = AddedInstances(
        _count(count, where),
        _count(threads, where) if times else 1,
        dict(typed_tag(tag, where) for tag in tags),
    )
    return check_added(added, where)


def _count(text: str, where: str) -> int:
    number = typed_number(text, where)
    if not 1 <= number <= MAX_INSTANCES:
        raise InputError(f"must be from 1 to {MAX_INSTANCES:,}, not {number}", where)
    return number


def typed_tag(text: str, where: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not key.strip() or not value.strip():
        raise InputError(f"a tag must be TAG=VALUE, not {text!r}", where)
    return key.strip(), value.strip()


def typed_number(text: str, where: str) -> int:
    """Digits, which `_` and `,` may group. Raises InputError."""
    digits = text.replace("_", "").replace(",", "")
    if not text.isascii() or not digits.isdigit() or len(text) > 40:
        raise InputError(f"must be a whole number, not {text[:80]!r}", where)
    return int(digits)
