"""Whether the group is paused, as far as the process has heard: pure.

It comes with each answer to a heartbeat, and counts until another one says otherwise. Before the first one, the answer
to a join says it, so that a member which joins a paused group processes nothing. An answer to a join may be an old one,
so later it says nothing. Differs from Kafka, where `KafkaStreams.pause` concerns one instance.
"""

from __future__ import annotations


class HeardPause:
    """`paused`: None before anything was heard."""

    def __init__(self) -> None:
        self.paused: bool | None = None

    def hears_of_heartbeat(self, paused: bool | None) -> bool:
        """Whether members have to be told now. None when the answer did not say it."""
        if paused is None or paused is self.paused:
            return False
        is_news = paused or self.paused is not None
        self.paused = paused
        return is_news

    def hears_of_join(self, paused: bool) -> bool:
        """Whether members have to be told now."""
        if not paused or self.paused is not None:
            return False
        self.paused = True
        return True
