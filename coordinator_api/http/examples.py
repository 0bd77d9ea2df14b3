"""An example of each body and each answer, for OpenAPI: they come from a real service, and a test tells it the same
story again.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

EXAMPLES_FILE = Path(__file__).with_name("examples.json")


@cache
def examples() -> dict[str, dict[str, Any]]:
    """By operation: `body`, and by status what is answered."""
    found: dict[str, dict[str, Any]] = json.loads(EXAMPLES_FILE.read_text(encoding="ascii"))
    return found
