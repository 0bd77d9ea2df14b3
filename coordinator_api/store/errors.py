"""What can go wrong with the store, in words of the service; SQLAlchemy's own errors stay below this package."""

from __future__ import annotations

from assignor.errors import AssignorFault


class StoreError(AssignorFault):
    """The store cannot be used. The message says what to do."""


class StoreInUse(StoreError):
    """Another process of the service holds the store."""


class ConcurrentWriter(StoreError):
    """Another process wrote this group: nothing was written, and what is in memory is out of date."""
