"""Kafka's record batches of version 2, as bytes and as columns; `record_batch_v2` is the room's entrance.

A name of a header may be no UTF-8, since another client may have written it: Python's surrogates stand for such bytes.
"""

from typing import Final

Headers = tuple[tuple[str, bytes | None], ...]
"""Names and values, in order. A name may appear twice."""

NAME_ERRORS: Final = "surrogateescape"
"""The error handler with which names of headers become bytes, and bytes names."""
