"""What one process and the coordinators send each other: it takes a while, and gets lost, comes twice or comes late."""

from tests.simulation.faults import Kind
from tests.simulation.timeline import Action, Timeline
from tests.simulation.windows import Struck, Windows

USUALLY_MS = 5
OVERTAKEN_MS = 2_000


class Link:
    """Of one process."""

    def __init__(self, timeline: Timeline, name: str, struck: Struck) -> None:
        self.windows = Windows(timeline, f"the network of {name}", struck)
        self._timeline = timeline

    def send(self, arrive: Action) -> None:
        """A message of the process to a coordinator."""
        self._carry(arrive, Kind.UNHEARD)

    def answer(self, arrive: Action) -> None:
        """A message to the process."""
        self._carry(arrive, Kind.DEAF)

    def is_cut_off(self) -> bool:
        """Whether nobody hears that a connection is closed."""
        windows = self.windows
        return windows.any_open and (windows.is_open(Kind.CUT_OFF) or windows.is_open(Kind.UNHEARD))

    def close(self, noticed: Action) -> None:
        """A connection is closed; the other side notices after all that was sent on it, if it can hear anything."""
        if not self.is_cut_off():
            self._timeline.after(self.windows.up_to(Kind.DELAY, USUALLY_MS), noticed)

    def _carry(self, arrive: Action, one_way: Kind) -> None:
        windows, after = self.windows, self._timeline.after
        if not windows.any_open:
            after(windows.up_to(Kind.DELAY, USUALLY_MS), arrive)
            return
        if windows.is_open(Kind.CUT_OFF) or windows.is_open(one_way) or windows.happens(Kind.LOSS):
            return
        delay_ms = windows.up_to(Kind.DELAY, USUALLY_MS)
        if windows.happens(Kind.REORDER):
            delay_ms += OVERTAKEN_MS * windows.chance.random()
        after(delay_ms, arrive)
        if windows.happens(Kind.DUPLICATES):
            after(windows.up_to(Kind.DELAY, USUALLY_MS), arrive)
