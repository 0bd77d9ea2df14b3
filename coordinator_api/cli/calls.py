"""Parses the options of commands that call a running coordinator. Makes the calls, and formats the answers as
tables.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from assignor.errors import InputError
from assignor_cli.output import Format, FormatOption, show
from assignor_cli.tables import Column, View, table_text
from coordinator_client.calls import COORDINATOR_METAVAR, DEFAULT_URL, SEVERAL_COORDINATORS, group_path

GroupArgument = Annotated[str, typer.Argument(metavar="GROUP", help="The group's id.")]
_UNIT_MS = {"h": 3_600_000, "m": 60_000, "s": 1_000, "ms": 1}
_DURATION = re.compile(r"(?:(\d{1,6})h)?(?:(\d{1,6})m(?!s))?(?:(\d{1,6})s)?(?:(\d{1,9})ms)?")


def _text(given: str | None) -> str | None:
    """Returns the argument. Raises InputError if the argument is not in the terminal's encoding."""
    try:
        (given or "").encode("utf-8")
    except UnicodeEncodeError:
        raise InputError("is not UTF-8", "--reason") from None
    return given


ReasonOption = Annotated[
    str | None,
    typer.Option(
        "--reason",
        metavar="TEXT",
        callback=_text,
        help="Reason for the coordinator's audit log: one line of up to 200 characters.",
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorCalls:
    """The options of a command that calls a coordinator: the coordinator's address and the bearer token."""

    coordinator: Annotated[
        str,
        typer.Option(
            "--coordinator", metavar=COORDINATOR_METAVAR, help=f"Address of the coordinator; {SEVERAL_COORDINATORS}."
        ),
    ] = DEFAULT_URL
    token_file: Annotated[
        str | None,
        typer.Option(
            "--token-file",
            metavar="FILE",
            help="File with the coordinator's bearer token. Default: ASSIGNOR_AUTH_TOKEN.",
        ),
    ] = None

    def call(
        self, method: str, path: str, *, body: Mapping[str, object] | None = None, **parameters: str | int | None
    ) -> Any:
        """Calls the coordinator and returns the answer's JSON. `body`: the request's body, which is sent as JSON.

        Raises CallFailed, and InputError if the address or the token file cannot be used.
        """
        # imported here, because the module loads httpx, which other commands do not need
        from coordinator_api.cli.client import call

        return call(method, self.coordinator, path, self.token_file, parameters, body)

    def get(self, path: str, **parameters: str | int | None) -> Any:
        return self.call("GET", path, body=None, **parameters)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupCommand(CoordinatorCalls):
    """The base of commands for one group."""

    group: GroupArgument
    format: FormatOption = Format.TEXT

    @property
    def path(self) -> str:
        return group_path(self.group)

    def show(self, document: Mapping[str, object], sentence: str) -> None:
        """Print the effect of the command: `sentence` as text, or `document` as JSON or YAML. The output also has the
        group's id.
        """
        show({"group_id": self.group, **document}, f"{self.group}: {sentence}", self.format)


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorCommand(GroupCommand):
    """The base of commands that change one group."""

    reason: ReasonOption = None

    def send(
        self, method: str, path: str, body: Mapping[str, object] | None = None, **parameters: str | int | None
    ) -> Any:
        """Sends a call with the command's reason. `path`: the part of the address after the group's path. Raises the
        errors of `call`.
        """
        return self.call(method, f"{self.path}{path}", body=body, reason=self.reason, **parameters)


def duration_ms(text: str, option: str) -> int:
    """Parses a duration such as 500ms, 60s, 10m, 1h or 1h30m. Raises InputError, which names the option, for any other
    text.
    """
    match = _DURATION.fullmatch(text)
    if match is None or not text:
        raise InputError(f"must be a duration such as 60s, 10m or 1h30m, not {text!r}", option)
    return sum(int(count) * unit_ms for count, unit_ms in zip(match.groups(), _UNIT_MS.values(), strict=True) if count)


Cell = tuple[Column, Callable[[Any, View], object]]
"""A column of a table, and a function. The function reads the column's value from one element of a JSON array."""


def document_table(nothing: str, cells: Sequence[Cell], entries: Iterable[Any], view: View) -> str:
    """Returns the text of a table that has one row for each element of a JSON array."""
    rows = ([text_of(entry, view) for _, text_of in cells] for entry in entries)
    return table_text(nothing, [column for column, _ in cells], rows, view)
