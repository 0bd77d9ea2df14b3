"""The options of commands that ask a running coordinator, and the `CoordinatorCalls` they make."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from assignor.coordinator_calls import COORDINATOR_METAVAR, DEFAULT_URL, SEVERAL_COORDINATORS
from assignor.errors import InputError

GroupArgument = Annotated[str, typer.Argument(metavar="GROUP", help="The group's id.")]


def _text(given: str | None) -> str | None:
    """Raises InputError for an argument that is not in the terminal's encoding."""
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
        help="Why, for the coordinator's audit log: one line of up to 200 characters.",
    ),
]


@dataclass(frozen=True, slots=True)
class CoordinatorCalls:
    """Where the coordinator is, and what it wants to see."""

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
        """The answer's JSON. `body`: what is sent, as JSON.

        Raises CallFailed, and InputError for an address or token file that cannot be used.
        """
        from coordinator_api.cli.client import call  # loads httpx, which the other commands do not need

        return call(method, self.coordinator, path, self.token_file, parameters, body)

    def get(self, path: str, **parameters: str | int | None) -> Any:
        return self.call("GET", path, body=None, **parameters)
