"""The commands that this package adds to the program `assignor`: `serve`, `migrate`, `backup`, `restore`, `groups ...`,
`rebalances ...`, `tokens ...`.

The service's libraries are imported when a command runs, so that other commands of `assignor` start without them.
"""

import typer

from assignor_cli.extras import Extra
from assignor_cli.help_texts import example

COORDINATOR = Extra(
    "coordinator", ("alembic", "fastapi", "httpx", "pydantic_settings", "sqlalchemy", "uvicorn", "zstandard")
)


def register(app: typer.Typer) -> None:
    """Add this package's commands to `app`."""
    if COORDINATOR.is_missing:
        COORDINATOR.register_missing(app, "serve", "migrate", "backup", "restore", "groups", "rebalances", "tokens")
        return
    from coordinator_api.cli import (
        flow_commands,
        group_commands,
        lever_commands,
        rebalance_commands,
        service_commands,
        token_commands,
    )

    service_commands.register(app)
    group_commands.groups.add_typer(flow_commands.flow)
    group_commands.groups.add_typer(lever_commands.levers)
    app.add_typer(group_commands.groups, name="groups", epilog=example("groups list", "groups describe orders --watch"))
    app.add_typer(rebalance_commands.rebalances, name="rebalances", epilog=example("rebalances list orders"))
    app.add_typer(token_commands.tokens, name="tokens", epilog=example("tokens create ops --right admin"))
