"""Java for tests, which ends before slow compilation would pay: it starts with half the processor time."""

import os
from contextlib import AbstractContextManager
from typing import Any
from unittest import mock

OPTIONS = {"JDK_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
"""In the environment of a Java program, and of what starts others."""


def quick_java() -> AbstractContextManager[Any]:
    """While this lasts, what this process starts has `OPTIONS`."""
    return mock.patch.dict(os.environ, OPTIONS)
