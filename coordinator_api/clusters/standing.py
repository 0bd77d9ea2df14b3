"""What is known of a group's cluster: when it last answered, and what has failed since. Not durable."""

from __future__ import annotations

from collections.abc import Callable

from coordinator_api.telemetry import GroupTelemetry


class ClusterStanding:
    """The watch, the rebalances and the description report each of their looks here. Times in milliseconds.

    `looked_at_ms`: when the cluster last answered, None before the first time. `failing_since_ms`: when the first look
    failed since then, `error`: why the last one failed; both None when the last look was answered.
    """

    def __init__(self, now_ms: Callable[[], int], telemetry: GroupTelemetry) -> None:
        self._now_ms = now_ms
        self._telemetry = telemetry
        self.looked_at_ms: int | None = None
        self.failing_since_ms: int | None = None
        self.error: str | None = None

    def answered(self) -> None:
        if self.failing_since_ms is not None:
            self._telemetry.cluster_back(self._now_ms() - self.failing_since_ms)
        self.looked_at_ms = self._now_ms()
        self.failing_since_ms = self.error = None

    def failed(self, error: Exception) -> None:
        # a path in it may have bytes that are no text; it is shown as JSON
        self.error = str(error).encode("utf-8", "backslashreplace").decode("utf-8") or type(error).__name__
        self._telemetry.cluster_look_failed()
        if self.failing_since_ms is None:
            self.failing_since_ms = self._now_ms()
            self._telemetry.cluster_out_of_reach(self.error)
