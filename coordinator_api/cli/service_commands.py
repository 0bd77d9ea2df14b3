"""The commands `assignor serve` and `assignor migrate`.

The server is imported when a command runs, so that the other commands of `assignor` start without it.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from assignor.commands.console import say
from assignor.commands.help_texts import example
from assignor.commands.option_groups import options_of
from assignor.commands.output import Format, FormatOption, show
from coordinator_api.settings import REMOVED, Settings, flag, setting_rows
from coordinator_api.settings_sources import load

ConfigFile = Annotated[
    Path | None, typer.Option("--config", metavar="FILE", help="TOML file with settings under their dotted names.")
]
DatabaseUrl = Annotated[str | None, typer.Option("--database-url", help="The database, as for serve.")]


def register(app: typer.Typer) -> None:
    """Add the commands to the program."""
    app.command(epilog=example("serve --port 8080 --database-url sqlite:////var/lib/assignor.db"))(serve)
    app.command(epilog=example("migrate --database-url sqlite:////var/lib/assignor.db"))(migrate)


def _settings_from_flags() -> Callable[..., Settings]:
    """Makes `Settings` of one flag for every setting. `Settings` itself reads and bounds the values. Raises
    SettingsError.
    """

    def settings(config: Path | None = None, **flags: str | None) -> Settings:
        return load({name: value for name, value in flags.items() if value is not None}, config)

    parameters = [_option("config", ConfigFile)]
    for row, field_name in zip(setting_rows(), Settings.model_fields, strict=True):
        # a secret has no flag; giving one all the same says so, instead of that there is no such option
        option = typer.Option(
            row.flag or flag(field_name),
            metavar="VALUE",
            help=f"{row.description} Default: {row.default}.",
            hidden=row.flag is None,
        )
        parameters.append(_option(field_name, Annotated[str | None, option]))
    for field_name in REMOVED:
        # giving one says what to use instead
        option = typer.Option(flag(field_name), metavar="VALUE", hidden=True)
        parameters.append(_option(field_name, Annotated[str | None, option]))
    settings.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return settings


def _option(name: str, annotation: object) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)


def settings_of_database(*, database_url: DatabaseUrl = None, config: ConfigFile = None) -> Settings:
    """Raises SettingsError."""
    return load({} if database_url is None else {"database_url": database_url}, config)


@options_of(settings=_settings_from_flags())
def serve(settings: Settings) -> None:
    """Run the coordinator.

    A flag overrides the environment (ASSIGNOR_*), which overrides the file, which overrides the default.
    """
    from coordinator_api.http import server
    from coordinator_api.web.pages import WebPages

    server.run(settings, say, WebPages())


@options_of(settings=settings_of_database)
def migrate(settings: Settings, format: FormatOption = Format.TEXT) -> None:
    """Upgrade the database's schema. `serve` does this automatically."""
    from coordinator_api.store.opening import migrate as migrate_store

    before, after = asyncio.run(migrate_store(settings))
    done = "nothing to do" if before == after else f"upgraded from {before or 'nothing'}"
    show({"schema_before": before, "schema": after}, f"schema {after}: {done}", format)
