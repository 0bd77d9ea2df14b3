"""The queue of clients, lightest first, from which the next client that may take a task is drawn.

Kafka's queue is a `java.util.PriorityQueue` whose weights change while clients are in it. Until such a client is
offered again the queue is not a proper heap, and a draw is not always the lightest client. To draw the same clients,
this is the same binary heap with the same layout after every step. Source: `ConstrainedPrioritySet`,
`java.util.PriorityQueue`.

The layout is seldom needed. While the heap is in order, a draw is the least of the accepted clients, wherever they lie
in it; where only one client is accepted, it is that one in any case. So steps are only written down, and carried out
when a draw has a choice in a heap that may have lost its order. A draw that accepts nobody takes all clients out and
puts them back: from then on the heap is in order, and if it was in order before, its layout does not depend on the
steps written down, which then never have to be carried out.
"""

from __future__ import annotations

from collections.abc import Sequence

from assignor.task_assignors.client_heap import (
    ANYWHERE,
    CLIENT,
    DRAINED,
    NOT_QUEUED,
    REFILLED,
    BreakingRange,
    ClientHeap,
    Step,
    breaking_range_after,
    load_bits,
)
from assignor.types import ProcessId


class ConstrainedPrioritySet:
    """Holds each client at most once."""

    def __init__(self, processes: Sequence[ProcessId], copies: Sequence[int], capacity: Sequence[int]) -> None:
        """Offers every client, in process order. `processes` are sorted; clients are their places.

        A client's load is its `copies`, which are looked at whenever it is offered, divided by its `capacity`.
        """
        self._copies = copies
        self._bits = load_bits(capacity)
        self._entries = [bits[copies[client]] | client for client, bits in enumerate(self._bits)]
        self._heap = ClientHeap(processes, self._entries)
        self._written_down: list[Step] = []
        self._breaking_range: BreakingRange | None = None  # None: the heap is in order
        self._freshly_drained = False

    def poll(self, accepted: Sequence[int]) -> int | None:
        """Takes out the first client drawn that is in `accepted`; returns None, and takes nobody out, when there is
        none.

        Clients that are drawn and not accepted go back in the order of the HashSet in which Kafka collects them.
        """
        entries = self._entries
        drawn, drawn_client, choices = NOT_QUEUED, 0, 0
        for client in accepted:
            entry = entries[client]
            if entry != NOT_QUEUED:
                choices += 1
                if choices == 1 or entry < drawn:
                    drawn, drawn_client = entry, client
        if choices == 0:
            self._drain_in_vain()
            return None
        if self._breaking_range is not None:
            if choices > 1 and not self._is_in_order():
                drawn = self._heap.first_of([entries[client] for client in accepted if entries[client] != NOT_QUEUED])
                drawn_client = drawn & CLIENT
            if self._breaking_range is not None:
                self._breaking_range = ANYWHERE
        self._freshly_drained = False
        self._written_down.append(drawn)
        entries[drawn_client] = NOT_QUEUED
        return drawn_client

    def offer(self, first: int, second: int) -> None:
        """Offers two different clients whose load may have changed, one after the other; one that is already in the
        queue is taken out first.

        Both loads have changed by the time of the first offer, also that of the second where it is queued.
        """
        entries, copies, bits = self._entries, self._copies, self._bits
        first_before, second_before = entries[first], entries[second]
        entries[first] = first_after = bits[first][copies[first]] | first
        entries[second] = second_after = bits[second][copies[second]] | second
        offers = (first_before, second_before, first_after, second_after)
        self._freshly_drained = False
        if self._breaking_range is not None:
            self._breaking_range = ANYWHERE
        elif first_before != NOT_QUEUED or not first_after > second_before > second_after:  # not the usual case
            self._breaking_range = breaking_range_after(offers)
        self._written_down.append(offers)

    def _is_in_order(self) -> bool:
        """Looks at the entries first; where they do not tell, carries out the offers that are written down."""
        assert self._breaking_range is not None
        least, most = self._breaking_range
        if any(map(most.__gt__, filter(least.__lt__, self._entries))):
            self._heap.carry_out(self._written_down, self._entries)
            self._written_down = []
            if not self._heap.in_order:
                return False
        self._breaking_range = None
        return True

    def _drain_in_vain(self) -> None:
        """Draws all clients and puts all of them back; from a heap in order, a second time changes nothing."""
        if self._freshly_drained:
            return
        if self._breaking_range is None:
            self._written_down = [REFILLED]
            self._freshly_drained = True
        else:
            self._written_down.append(DRAINED)
            self._breaking_range = None
