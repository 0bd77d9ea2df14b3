"""The commands `assignor serve`, `migrate`, `backup` and `restore`: the service, and its database.

The server is imported when a command runs, so that the other commands of `assignor` start without it.
"""

from __future__ import annotations

import asyncio
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from assignor_cli.console import print_message
from assignor_cli.help_texts import example
from assignor_cli.option_groups import options_of
from assignor_cli.output import Format, FormatOption, show
from coordinator_api.http.settings_sources import load
from coordinator_api.settings import REMOVED, Settings, flag, setting_rows
from rebalance_analysis.presentation.quantities import counted

if TYPE_CHECKING:
    from coordinator_api.store.backup import Done
    from coordinator_api.store.backup_file import Progress

ConfigFile = Annotated[
    Path | None, typer.Option("--config", metavar="FILE", help="TOML file with settings under their dotted names.")
]
DatabaseUrl = Annotated[str | None, typer.Option("--database-url", help="URL of the database, as for serve.")]

_ROWS_OF_TABLES = {"groups": "group", "group_records": "record", "rebalances": "rebalance", "tokens": "token"}
"""For each table of the database, the noun for one row of the table."""


def register(app: typer.Typer) -> None:
    """Add the commands to the program."""
    on = "--database-url sqlite:////var/lib/assignor.db"
    app.command(epilog=example(f"serve --port 8080 {on}"))(serve)
    app.command(epilog=example(f"migrate {on}"))(migrate)
    app.command(epilog=example(f"backup monday.backup {on}"))(backup)
    app.command(epilog=example(f"restore monday.backup {on}"))(restore)


def _settings_from_flags() -> Callable[..., Settings]:
    """Returns a function with one command-line option for each setting. The returned function makes `Settings` from the
    options, and raises SettingsError if `Settings` refuses a value.
    """

    def settings(config: Path | None = None, **flags: str | None) -> Settings:
        return load({name: value for name, value in flags.items() if value is not None}, config)

    parameters = [_option("config", ConfigFile)]
    for row, field_name in zip(setting_rows(), Settings.model_fields, strict=True):
        # A secret has a hidden option, so that the error can say that secrets have no flag.
        option = typer.Option(
            row.flag or flag(field_name),
            metavar="VALUE",
            help=f"{row.description} Default: {row.default}.",
            hidden=row.flag is None,
        )
        parameters.append(_option(field_name, Annotated[str | None, option]))
    for field_name in REMOVED:
        # a removed setting has a hidden option, so that the error names the replacement
        option = typer.Option(flag(field_name), metavar="VALUE", hidden=True)
        parameters.append(_option(field_name, Annotated[str | None, option]))
    settings.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return settings


def _option(name: str, annotation: object) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)


def settings_of_database(*, database_url: DatabaseUrl = None, config: ConfigFile = None) -> Settings:
    """The settings for a command that uses only the database. Raises SettingsError."""
    return load({} if database_url is None else {"database_url": database_url}, config)


@options_of(settings=_settings_from_flags())
def serve(settings: Settings) -> None:
    """Run the coordinator.

    A flag overrides the environment (ASSIGNOR_*). The environment overrides the file. The file overrides the default.
    """
    from coordinator_api.http import server
    from coordinator_api.web.pages import WEB_PAGES

    server.run(settings, print_message, WEB_PAGES)


@options_of(settings=settings_of_database)
def migrate(settings: Settings, format: FormatOption = Format.TEXT) -> None:
    """Upgrade the database's schema.

    `serve` upgrades the schema automatically.
    """
    from coordinator_api.store.opening import migrate as migrate_store

    before, after = asyncio.run(migrate_store(settings))
    done = "nothing to do" if before == after else f"upgraded from {before or 'nothing'}"
    show({"schema_before": before, "schema": after}, f"schema {after}: {done}", format)


@options_of(settings=settings_of_database)
def backup(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The file to write.")],
    settings: Settings,
    force: Annotated[bool, typer.Option("--force", help="Replace FILE if it exists.")] = False,
    format: FormatOption = Format.TEXT,
) -> None:
    """Write a coordinator's database to a file.

    The coordinator may be running. The file is a consistent snapshot of the database. The file has the digests of the
    tokens, but not the tokens themselves.
    """
    from coordinator_api.store.backup import back_up

    with _progress_bar("backing up") as progress:
        done, sha256 = asyncio.run(back_up(settings, file, replace=force, progress=progress))
    size = file.stat().st_size
    document = {**_reported(file, done), "bytes": size, "sha256": sha256}
    show(document, f"{file}: {_counted(done.header.counts)}, {size:,} bytes", format)


@options_of(settings=settings_of_database)
def restore(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A file that `assignor backup` wrote.")],
    settings: Settings,
    exact: Annotated[
        bool,
        typer.Option(
            "--exact",
            help="Keep the members. Use this option only if the coordinator stopped for good before the backup.",
        ),
    ] = False,
    format: FormatOption = Format.TEXT,
) -> None:
    """Write a backup into an empty database.

    Each group begins without members. The generation of each group is far above its generation in the backup. Because
    of the higher generation, members do not use an assignment that they got after the backup. The members join again by
    themselves.
    """
    from coordinator_api.store.backup import restore as restore_store

    with _progress_bar("restoring") as progress:
        done = asyncio.run(restore_store(settings, file, keep_members=exact, progress=progress))
    document = {**_reported(file, done), "exact": exact}
    if done.header.counts.get("tokens") and not exact:
        print_message("warning: tokens that were revoked after the backup are valid again: revoke them once more")
    members = "members are kept" if exact else "members join again"
    show(document, f"{file}: restored {_counted(done.header.counts)}; {members}", format)


def _counted(counts: Mapping[str, int]) -> str:
    return ", ".join(counted(counts[table], row) for table, row in _ROWS_OF_TABLES.items() if table in counts)


def _reported(file: Path, done: Done) -> dict[str, object]:
    """Returns the fields that `backup` and `restore` both print. Warns of damaged groups."""
    for group_id, problem in done.damaged.items():
        print_message(f"warning: {problem}. It is kept as it is, and a coordinator does not lead group {group_id}")
    header = done.header
    return {"file": str(file), "schema": header.schema, "counts": dict(header.counts), "damaged": dict(done.damaged)}


@contextmanager
def _progress_bar(what: str) -> Iterator[Progress]:
    """Shows a progress bar on stderr, if stderr is a terminal."""
    if not sys.stderr.isatty():
        yield lambda _done, _total: None
        return
    from rich.console import Console
    from rich.progress import Progress as Bars

    with Bars(console=Console(stderr=True), transient=True, redirect_stdout=False) as bars:
        bar = bars.add_task(what)
        yield lambda done, total: bars.update(bar, completed=done, total=total)
