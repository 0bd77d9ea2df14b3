"""Kafka's record batches of version 2, as bytes and as columns. Callers use `record_batch_v2`.

Some clients write header names that are not UTF-8. Invalid bytes in a header name are decoded to surrogates
(`surrogateescape`).
"""

from collections.abc import Sequence
from typing import Final

Headers = tuple[tuple[str, bytes | None], ...]
"""Names and values of a record's headers, in order. Two headers of a record may have the same name."""

BytesColumn = Sequence[bytes | None]
"""The keys or the values of consecutive records."""

NAME_ERRORS: Final = "surrogateescape"
"""The error handler that converts header names between bytes and text."""
