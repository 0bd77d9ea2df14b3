"""The commands `assignor backup` and `assignor restore`: a coordinator's database as one file, and back."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from assignor.commands.console import say
from assignor.commands.help_texts import example
from assignor.commands.option_groups import options_of
from assignor.commands.output import Format, FormatOption, show
from coordinator_api.cli.service_commands import settings_of_database
from coordinator_api.settings import Settings

if TYPE_CHECKING:
    from coordinator_api.store.backup_file import Progress

_CALLED = {"groups": "group", "group_records": "record", "rebalances": "rebalance", "tokens": "token"}
"""One row of each table."""


def register(app: typer.Typer) -> None:
    """Add the commands to the program."""
    on = "--database-url sqlite:////var/lib/assignor.db"
    app.command(epilog=example(f"backup monday.backup {on}"))(backup)
    app.command(epilog=example(f"restore monday.backup {on}"))(restore)


@options_of(settings=settings_of_database)
def backup(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The file to write.")],
    settings: Settings,
    force: Annotated[bool, typer.Option("--force", help="Replace FILE if it is there.")] = False,
    format: FormatOption = Format.TEXT,
) -> None:
    """Write the database of a coordinator, which may run, to a file.

    The file has the database as it was at one moment. Of tokens it has digests alone.
    """
    from coordinator_api.store.backup import back_up

    with _bar("backing up") as progress:
        done = asyncio.run(back_up(settings, file, replace=force, progress=progress))
    size = file.stat().st_size
    _say_damaged(done.damaged)
    document = {
        "file": str(file),
        "bytes": size,
        "schema": done.header.schema,
        "counts": dict(done.header.counts),
        "sha256": done.sha256,
        "damaged": dict(done.damaged),
    }
    show(document, f"{file}: {_in_words(done.header.counts)}, {size:,} bytes", format)


@options_of(settings=settings_of_database)
def restore(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A file that `assignor backup` wrote.")],
    settings: Settings,
    exact: Annotated[
        bool,
        typer.Option(
            "--exact",
            help="Keep the members. Only for a backup that was made after the coordinator had stopped for good.",
        ),
    ] = False,
    format: FormatOption = Format.TEXT,
) -> None:
    """Write a backup into an empty database.

    Each group begins without members, in a much higher generation, so that no member goes on with an assignment from
    after the backup. The members join again by themselves.
    """
    from coordinator_api.store.backup import restore as restore_store

    with _bar("restoring") as progress:
        done = asyncio.run(restore_store(settings, file, keep_members=exact, progress=progress))
    _say_damaged(done.damaged)
    document = {
        "file": str(file),
        "schema": done.header.schema,
        "counts": dict(done.header.counts),
        "exact": exact,
        "damaged": dict(done.damaged),
    }
    if done.header.counts.get("tokens") and not exact:
        say("warning: tokens that were revoked after the backup are valid again: revoke them once more")
    members = "members are kept" if exact else "members join again"
    show(document, f"{file}: restored {_in_words(done.header.counts)}; {members}", format)


def _in_words(counts: Mapping[str, int]) -> str:
    return ", ".join(
        f"{counts[table]:,} {one}{'' if counts[table] == 1 else 's'}"
        for table, one in _CALLED.items()
        if table in counts
    )


def _say_damaged(damaged: Mapping[str, str]) -> None:
    for group_id, problem in damaged.items():
        say(f"warning: {problem}. It is kept as it is, and a coordinator does not lead group {group_id}")


@contextmanager
def _bar(what: str) -> Iterator[Progress]:
    """On stderr, when that is a terminal."""
    if not sys.stderr.isatty():
        yield lambda _done, _total: None
        return
    from rich.console import Console
    from rich.progress import Progress as Bars

    with Bars(console=Console(stderr=True), transient=True, redirect_stdout=False) as bars:
        bar = bars.add_task(what)
        yield lambda done, total: bars.update(bar, completed=done, total=total)
