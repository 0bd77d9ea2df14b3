"""`assignor tokens`: creates, lists and revokes tokens, at a running coordinator or in a file of tokens.

A new token is the only line on stdout, so a shell can redirect the token to a file. All messages go to stderr. A file
of tokens (`auth.tokens.file`) has only the hashes of tokens. Only the owner of a file of tokens can read the file. Each
change replaces the whole file.
"""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated
from urllib.parse import quote

import typer

from assignor.errors import InputError
from assignor_cli.console import print_message
from assignor_cli.help_texts import example
from assignor_cli.option_groups import options_of
from assignor_cli.output import Format, FormatOption, show
from assignor_cli.tables import Column, View, age_text
from coordinator_api.cli.calls import Cell, CoordinatorCalls, document_table
from coordinator_client.access.credentials import wall_clock_ms
from coordinator_client.access.principals import Principal, Right
from coordinator_client.access.token_files import text_of
from coordinator_client.access.tokens import (
    TokenEntry,
    check_name,
    digest_of,
    end_ms,
    format_entry,
    group_pattern,
    group_prefix,
    instant_text,
    new_token,
    parse_entries,
)
from operating_system.whole_files import takes_the_name, whole_file

tokens = typer.Typer(help="The bearer tokens of the coordinator's callers.", no_args_is_help=True)

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="Name of the token's owner.")]
FileOption = Annotated[
    Path | None,
    typer.Option(
        "--file", metavar="FILE", help="Use this file of tokens (auth.tokens.file) instead of a running coordinator."
    ),
]
_TOKENS: Sequence[Cell] = (
    (Column("NAME", shorten=True), lambda each, view: each["name"]),
    (Column("RIGHT"), lambda each, view: each["right"]),
    (Column("GROUPS"), lambda each, view: each["groups"]),
    (Column("SOURCE", optional=True), lambda each, view: each.get("source")),
    (Column("EXPIRES", optional=True), lambda each, view: _expiry(each["expires_ms"], view)),
    (Column("CREATED BY", optional=True, wide=True), lambda each, view: each.get("created_by")),
    (Column("AGE", right=True, optional=True), lambda each, view: age_text(each.get("created_ms"), view.now_ms)),
)


@tokens.command(
    "create",
    epilog=example(
        "tokens create payments --right member --groups 'payments-*'", "tokens create ops --right admin --file tokens"
    ),
)
@options_of(calls=CoordinatorCalls)
def create_token(
    name: NameArgument,
    calls: CoordinatorCalls,
    right: Annotated[
        Right,
        typer.Option("--right", help="The right that the token gives. Each right includes the rights named before it."),
    ],
    groups: Annotated[
        str, typer.Option("--groups", metavar="PREFIX*", help="Limit the token to groups whose ids have this prefix.")
    ] = "*",
    expires: Annotated[
        str | None,
        typer.Option("--expires", metavar="WHEN", help="Expiry, such as 2027-01-31T00:00:00Z or P90D. Default: never."),
    ] = None,
    file: FileOption = None,
) -> None:
    """Create a token and print it.

    The token cannot be shown again, because services store only its hash.
    """
    principal = Principal(check_name(name, "NAME"), right, group_prefix(groups, "--groups"))
    expires_ms = None if expires is None else end_ms(expires, wall_clock_ms(), "--expires")
    if file is None:
        expires_at = None if expires_ms is None else instant_text(expires_ms)
        answer = calls.call("POST", "/v1/tokens", body={**_fields(principal), "expires": expires_at})
        token, note = str(answer["token"]), answer["note"]
    else:
        token, note = _create_in_file(file, principal, expires_ms), None
    print(token, flush=True)
    until = "" if expires_ms is None else f", until {instant_text(expires_ms)}"
    print_message(
        f"{name}: right {right}, groups {group_pattern(principal.group_prefix)}{until}; nobody can show it again"
    )
    if note:
        print_message(note)


@tokens.command("list", epilog=example("tokens list", "tokens list --file tokens"))
@options_of(calls=CoordinatorCalls)
def list_tokens(calls: CoordinatorCalls, file: FileOption = None, format: FormatOption = Format.TEXT) -> None:
    """List the tokens with their owners, rights and expiry times."""
    if file is None:
        listed = calls.get("/v1/tokens")["tokens"]
    else:
        listed = [
            {**_fields(each.principal), "expires_ms": each.expires_ms} for each in _entries_of(file, _lines_in(file))
        ]
    show({"tokens": listed}, lambda view: document_table("No tokens.", _TOKENS, listed, view), format)


@tokens.command("revoke", epilog=example("tokens revoke payments", "tokens revoke payments --file tokens"))
@options_of(calls=CoordinatorCalls)
def revoke_token(
    name: NameArgument, calls: CoordinatorCalls, file: FileOption = None, format: FormatOption = Format.TEXT
) -> None:
    """Revoke a token: calls with this token are refused.

    A coordinator reads a changed file of tokens within two seconds.
    """
    if file is None:
        calls.call("DELETE", f"/v1/tokens/{quote(name, safe='')}")
    else:
        _revoke_in_file(file, name)
    show({"name": name, "revoked": True}, f"{name}: revoked", format)


def _expiry(at_ms: int | None, view: View) -> str:
    if at_ms is None:
        return ""
    return f"{instant_text(at_ms)}{' (expired)' if at_ms <= view.now_ms else ''}"


def _fields(principal: Principal) -> dict[str, object]:
    return {"name": principal.name, "right": principal.right.value, "groups": group_pattern(principal.group_prefix)}


def _create_in_file(file: Path, principal: Principal, expires_ms: int | None) -> str:
    """Adds a token to the file, and returns it. Raises InputError."""
    lines = _lines_in(file) if file.exists() else []
    if any(entry.principal.name == principal.name for entry in _entries_of(file, lines)):
        problem = f"has a token of the name {principal.name} already: choose another name, or revoke that one"
        raise InputError(problem, str(file))
    token = new_token()
    _replace(file, [*lines, format_entry(TokenEntry(principal, digest_of(token.encode("ascii")), expires_ms))])
    return token


def _revoke_in_file(file: Path, name: str) -> None:
    """Removes a token from the file. Raises InputError."""
    lines = _lines_in(file)
    names = [entry.principal.name for entry in _entries_of(file, lines)]
    if name not in names:
        raise InputError(f"has no token of the name {name}", str(file))
    if len(names) == 1:
        raise InputError(
            f"{name} is its last token, and a service keeps the tokens of a file that has none: "
            "create another one first, or take the file out of the settings",
            str(file),
        )
    _replace(file, [line for line in lines if line.partition("#")[0].split()[:1] != [name]])


def _entries_of(file: Path, lines: Sequence[str]) -> tuple[TokenEntry, ...]:
    return parse_entries("\n".join([*lines, ""]), str(file))


def _lines_in(file: Path) -> list[str]:
    return text_of(file, "--file").splitlines()


def _replace(file: Path, lines: Sequence[str]) -> None:
    """Replaces the file as a whole, so that a reader never sees old and new lines together. Raises InputError."""
    try:
        if not takes_the_name(file):
            raise InputError(f"{file} is no file, and the tokens would take its name: name another one", "--file")
        with whole_file(file) as stream:
            os.fchmod(stream.fileno(), 0o600)
            stream.write("".join(f"{line}\n" for line in lines).encode("utf-8"))
            stream.flush()
            os.fsync(stream.fileno())
    except OSError as error:
        raise InputError(f"{file} cannot be written: {error.strerror or error}", "--file") from None
