"""What brokers check of a record beside its size, as far as a topic's configs and earlier answers show it.

A broker refuses a whole batch for one record, when nobody knows any more what the record came of. So `send` refuses it
first: a timestamp too far from the clock (`message.timestamp.after.max.ms`, one hour unless the topic says otherwise,
and `message.timestamp.before.max.ms`), and a record that the brokers have refused before. The latter meets a record
that passed here: the two clocks differ, or the topic's configs have changed. Its work is done again then, and here the
record is recognised. Source: `LogValidator.validateTimestamp`.

Differs from Kafka: there, the producer learns of it from the broker, when the transaction can only be aborted.
"""

from __future__ import annotations

from assignor.types import JAVA_LONG_MAX
from streams_runtime.clock import Clock, SystemClock
from streams_runtime.notices import duration_text
from streams_runtime.records import Headers

AnyRecord = tuple[bytes | None, bytes | None, int, Headers]
"""Key, value, timestamp in milliseconds, headers."""

_MARGIN_MS = 1_000
_MOST_REFUSED = 10_000


class BrokerChecks:
    """Of one topic, for all producers of a log; any thread may call.

    `rows_pass_to_ms`: a record with a timestamp up to this one needs no check. It lies behind what the clock would
    allow, and `check_timestamp` moves it. -1: each record needs one.
    """

    def __init__(
        self, after_max_ms: int = JAVA_LONG_MAX, before_max_ms: int = JAVA_LONG_MAX, clock: Clock | None = None
    ) -> None:
        """See `configure`."""
        self.rows_pass_to_ms = -1
        self._clock = clock or SystemClock()
        self._after_max_ms = self._before_max_ms = -1
        self._refused: dict[AnyRecord, str] = {}
        self.configure(after_max_ms, before_max_ms)

    def configure(self, after_max_ms: int, before_max_ms: int) -> None:
        """Both as the topic's configs have them now."""
        if (after_max_ms, before_max_ms) != (self._after_max_ms, self._before_max_ms):
            self._after_max_ms, self._before_max_ms = after_max_ms, before_max_ms
            self._ahead_ms = 0  # how far the clock here may be ahead of the brokers'
        self._move()

    def check_timestamp(self, timestamp_ms: int) -> None:
        """Raises ValueError, whose text goes on after the name of the record."""
        self._move()
        later_ms = timestamp_ms - self._clock.now_ms()
        if later_ms > self._after_max_ms - self._ahead_ms:
            if later_ms > self._after_max_ms:
                why = f"its topic takes {duration_text(self._after_max_ms)}"
            else:
                why = "the brokers have refused a record that was no further ahead"
            raise ValueError(
                f"has the timestamp {timestamp_ms}, {duration_text(later_ms)} ahead of the clock; {why} "
                "(message.timestamp.after.max.ms)"
            )
        if -later_ms > self._before_max_ms:
            raise ValueError(
                f"has the timestamp {timestamp_ms}, {duration_text(-later_ms)} behind the clock; its topic takes "
                f"{duration_text(self._before_max_ms)} (message.timestamp.before.max.ms)"
            )

    def take_refusal(self, record: AnyRecord) -> str | None:
        """Why the brokers have refused the record, if they have; reported once."""
        return self._refused.pop(record, None) if self._refused else None

    def was_refused(self, record: AnyRecord, reason: str, *, for_its_timestamp: bool) -> None:
        """The brokers have refused a record that passed here."""
        if for_its_timestamp:
            # on their clock it was further ahead than the topic takes; so would others be that are as far ahead here
            ahead_ms = self._after_max_ms - (record[2] - self._clock.now_ms()) + _MARGIN_MS
            if 0 < ahead_ms < self._after_max_ms:
                self._ahead_ms = max(self._ahead_ms, ahead_ms)
        if len(self._refused) >= _MOST_REFUSED:
            self._refused.clear()
        self._refused[record] = reason
        self._move()

    def _move(self) -> None:
        if self._refused or self._before_max_ms < JAVA_LONG_MAX:
            self.rows_pass_to_ms = -1
        else:
            self.rows_pass_to_ms = self._clock.now_ms() + self._after_max_ms - self._ahead_ms
