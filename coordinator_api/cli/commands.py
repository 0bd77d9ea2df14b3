"""The commands of this package: `serve`, `migrate`, `groups ...`, `rebalances ...`.

Results go to stdout, talk to stderr. Exit 0; 1 when the answer is no; 2 for wrong usage, settings included. The
service's libraries are imported when a command runs, so that the other commands of `assignor` start without them.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from assignor.commands.console import EXIT_NO, EXIT_UNUSABLE, Format, leave, say
from assignor.recording import line_of_document
from coordinator_api.cli import inspection
from coordinator_api.settings import Settings, SettingsError, load, setting_rows

_CONFIG = typer.Option("--config", metavar="FILE", help="TOML file with settings under their dotted names.")


def register(app: typer.Typer) -> None:
    """Add the commands to the program."""
    app.command(help="Run the coordinator. Flags over ASSIGNOR_* environment over the file over defaults.")(
        _with_setting_flags()
    )
    app.command()(migrate)
    app.add_typer(inspection.groups, name="groups")
    app.add_typer(inspection.rebalances, name="rebalances")


def migrate(
    database_url: Annotated[str | None, typer.Option("--database-url", help="The database; as for serve.")] = None,
    config: Annotated[Path | None, _CONFIG] = None,
    format: Annotated[Format, typer.Option("--format")] = Format.TEXT,
) -> None:
    """Bring the database's schema up to date. `serve` does it by itself."""
    settings = _settings({"database_url": database_url}, config)
    from coordinator_api.store.errors import StoreError
    from coordinator_api.store.opening import migrate as migrate_store

    try:
        before, after = asyncio.run(migrate_store(settings))
    except StoreError as error:
        _fail(str(error), EXIT_NO)
    if format is Format.JSON:
        typer.echo(line_of_document({"schema_before": before, "schema": after}))
    else:
        typer.echo(
            f"schema {after}: " + ("nothing to do" if before == after else f"upgraded from {before or 'nothing'}")
        )


def _with_setting_flags() -> Callable[..., None]:
    """`serve` with one flag for every setting; values are read and bounded by `Settings`, not by the flags."""

    def serve(config: Path | None = None, **flags: str | None) -> None:
        _serve(config, flags)

    parameters = [_parameter("config", Annotated[Path | None, _CONFIG])]
    for row, field_name in zip(setting_rows(), Settings.model_fields, strict=True):
        option = typer.Option(row.flag, metavar="VALUE", help=f"{row.description} Default: {row.default}.")
        parameters.append(_parameter(field_name, Annotated[str | None, option]))
    serve.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    serve.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return serve


def _parameter(name: str, annotation: object) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)


def _serve(config: Path | None, flags: Mapping[str, str | None]) -> None:
    settings = _settings(flags, config)
    from coordinator_api.http import server
    from coordinator_api.store.errors import StoreError

    try:
        server.run(settings, say)
    except SettingsError as error:
        _fail(str(error), EXIT_UNUSABLE)
    except (StoreError, server.CannotListen) as error:
        _fail(str(error), EXIT_NO)


def _settings(flags: Mapping[str, str | None], config: Path | None) -> Settings:
    given = {name: value for name, value in flags.items() if value is not None}
    try:
        return load(given, config)
    except SettingsError as error:
        _fail(str(error), EXIT_UNUSABLE)


def _fail(message: str, code: int) -> NoReturn:
    say(f"assignor: {message}")
    leave(code)
