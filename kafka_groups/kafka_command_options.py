"""Options that `assignor record` and `assignor lead` share, each written once.

An installation without the Kafka client leaves both commands out, and says so.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Annotated

import typer

if importlib.util.find_spec("aiokafka") is None:
    raise ImportError("pip install 'assignor[kafka,streams]'")

ClientProperties = Annotated[
    Path | None,
    typer.Option("--command-config", metavar="FILE", help="Properties of the Kafka client: TLS, SASL, time-outs."),
]
CoordinatorUrl = Annotated[
    str | None, typer.Option(metavar="URL", help="Also report every rebalance to this coordinator.")
]
TokenFile = Annotated[
    Path | None, typer.Option(help="File with the coordinator's bearer token. Default: ASSIGNOR_AUTH_TOKEN.")
]
