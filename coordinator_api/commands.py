"""The commands of this package: `serve`, `migrate`, `groups ...`, `rebalances ...`.

Results go to stdout, talk to stderr. Exit 0, 1 when the answer is no, 2 for wrong usage, settings included.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, NoReturn
from urllib.parse import quote

import typer

from coordinator_api import tables
from coordinator_api.client import CallFailed, CoordinatorClient
from coordinator_api.settings import Settings, SettingsError, dotted, environment_name, flag, load


class Format(StrEnum):
    TEXT = "text"
    JSON = "json"


CoordinatorUrl = Annotated[
    str, typer.Option("--coordinator", envvar="ASSIGNOR_COORDINATOR", help="Address of the coordinator.")
]
Token = Annotated[
    str | None, typer.Option("--token", envvar="ASSIGNOR_AUTH_TOKEN", help="Its bearer token, if it wants one.")
]
OutputFormat = Annotated[Format, typer.Option("--format", help="A table to read, or JSON.")]
Group = Annotated[str, typer.Argument(help="The group's id.")]
DEFAULT_URL = "http://127.0.0.1:8080"
