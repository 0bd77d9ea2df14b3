"""Adds the commands of this package to the program `assignor`."""

import typer

from assignor_cli.extras import Extra
from assignor_cli.help_texts import example
from streams_runtime.cli import dead_letter_commands, topic_commands
from streams_runtime.cli.consume_command import consume
from streams_runtime.cli.produce_command import produce
from streams_runtime.cli.reset_command import reset

STREAMS = Extra("streams", ("httpx",))
"""The extra of the Python package with the optional dependencies of the command `reset`, which calls the coordinator.
The other commands need no extra if the log is an embedded log.
"""


def register(app: typer.Typer) -> None:
    """Adds the commands to `app`."""
    at = "--bootstrap-server embedded:log"
    app.add_typer(topic_commands.topics, name="topics", epilog=example(f"topics list {at}"))
    app.command("produce", epilog=example(f"produce lines a.txt --key-separator : {at}"))(produce)
    app.command("consume", epilog=example(f"consume counts --from-beginning {at}"))(consume)
    app.add_typer(
        dead_letter_commands.dead_letters, name="dead-letters", epilog=example(f"dead-letters list failed {at}")
    )
    if STREAMS.is_missing:
        STREAMS.register_missing(app, "reset")
        return
    app.command("reset", epilog=example("reset --application-id words --bootstrap-server embedded:log"))(reset)
