"""A log on a broker that others use too, seen as if it had the cluster for itself.

Rule: names of topics, groups and transactional ids get a prefix on their way in and lose it on their way out, in errors
too. Topics without the prefix are invisible, and so are the topics in which groups keep their claims.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from assignor.types import TopicPartition
from streams_runtime.logs.base import Claim, IsolationLevel, NewTopic, OffsetAndMetadata, RecordBatch, TopicDescription
from streams_runtime.logs.log_errors import LogError, OffsetOutOfRange

_NAME_ONE_PARTITION = ("send", "send_columns")
"""Their first argument is a partition; the others are a record's, and name nothing."""


class _Namespaced:
    """A log, a consumer or a producer with names inside of the prefix."""

    def __init__(self, inside: Any, prefix: str) -> None:
        self._inside = inside
        self._prefix = prefix

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inside, name)
        return self._translated(found, 1 if name in _NAME_ONE_PARTITION else None) if callable(found) else found

    def _translated(self, method: Callable[..., Any], named: int | None) -> Callable[..., Any]:
        def call(*given: Any) -> Any:
            try:
                return self._outside(method(*map(self._in_prefix, given[:named]), *(given[named:] if named else ())))
            except OffsetOutOfRange as error:
                raise OffsetOutOfRange(self._outside(error.positions)) from error
            except LogError as error:
                raise type(error)(str(error).replace(self._prefix, "")) from error

        return call

    def _in_prefix(self, given: Any) -> Any:
        match given:
            case TopicPartition():
                return given._replace(topic=self._prefix + given.topic)
            case NewTopic():  # a name that is refused is refused as it is
                return replace(given, name=self._prefix * bool(given.name.strip(".")) + given.name)
            case Claim():
                return replace(given, group_id=self._prefix + given.group_id, epochs=self._in_prefix(given.epochs))
            case IsolationLevel() | OffsetAndMetadata():
                return given
            case str():
                return self._prefix + given
            case Mapping():  # by partition, unless it has the configs of a topic
                return {self._in_prefix(key): each for key, each in given.items() if isinstance(key, tuple)} or given
            case tuple() | list() | set() | frozenset():
                return [self._in_prefix(each) for each in given]
        return given

    def _outside(self, given: Any) -> Any:
        match given:
            case TopicPartition():
                return given._replace(topic=given.topic.removeprefix(self._prefix))
            case TopicDescription():
                return replace(given, name=given.name.removeprefix(self._prefix))
            case Claim():
                group_id = given.group_id.removeprefix(self._prefix)
                return replace(given, group_id=group_id, epochs=self._outside(given.epochs))
            case RecordBatch():
                return replace(given, partition=self._outside(given.partition))
            case Mapping():
                return {self._outside(key): each for key, each in given.items()}
            case list() | frozenset():
                return type(given)(map(self._outside, given))
        return given


class NamespacedLog(_Namespaced):
    """A `Log`. `close` closes the one inside."""

    def topics(self) -> Mapping[str, TopicDescription]:
        found = {name.removeprefix(self._prefix): topic for name, topic in self._inside.topics().items()}
        return {
            name: self._outside(topic)
            for name, topic in found.items()
            if name != topic.name and not name.endswith("-claims")
        }

    def topic_ids(self, topics: Iterable[str]) -> Mapping[str, str]:
        found = self._inside.topic_ids(map(self._in_prefix, topics))
        return {name.removeprefix(self._prefix): topic_id for name, topic_id in found.items()}

    def consumer(
        self, isolation: IsolationLevel = IsolationLevel.READ_COMMITTED, *, whole_transactions: bool = False
    ) -> Any:
        return _Namespaced(self._inside.consumer(isolation, whole_transactions=whole_transactions), self._prefix)

    def producer(self, transactional_id: str | None = None) -> Any:
        return _Namespaced(super().__getattr__("producer")(transactional_id), self._prefix)
