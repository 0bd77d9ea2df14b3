"""Under which subject a schema is registered. Source: `TopicNameStrategy`, `RecordNameStrategy`,
`TopicRecordNameStrategy`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from assignor.errors import InputError

SubjectNameStrategy = Callable[[str | None, bool, str | None], str | None]
"""Topic (None: not known), whether it is for keys, and the record's full name (None: the schema has none) to the
subject. None: what the strategy needs is not known."""


def topic_name_strategy(topic: str | None, is_key: bool, record: str | None) -> str | None:
    return None if topic is None else f"{topic}-{'key' if is_key else 'value'}"


def record_name_strategy(topic: str | None, is_key: bool, record: str | None) -> str | None:
    return record


def topic_record_name_strategy(topic: str | None, is_key: bool, record: str | None) -> str | None:
    return None if topic is None or record is None else f"{topic}-{record}"


_STRATEGIES: dict[str, SubjectNameStrategy] = {
    "TopicNameStrategy": topic_name_strategy,
    "RecordNameStrategy": record_name_strategy,
    "TopicRecordNameStrategy": topic_record_name_strategy,
}


def subject_name_strategy(key: str, configs: Mapping[str, object], where: str) -> SubjectNameStrategy:
    """By its simple name, by the full name of Confluent's class, or a function. Raises InputError."""
    given = configs.get(key, "TopicNameStrategy")
    if callable(given):
        return given
    found = _STRATEGIES.get(str(given).rpartition(".")[2])
    if found is None:
        raise InputError(f"{key} must be a function or one of {', '.join(_STRATEGIES)}, not {given!r}", where)
    return found
