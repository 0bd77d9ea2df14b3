"""The commands about recorded rebalances: `assign`, `decode`, `explain`, `diff`, `what-if` and `simulate`."""

from collections.abc import Callable, Mapping

import typer

from assignor_cli.help_texts import example
from rebalance_analysis.commands import assign, decode, diff, explain, simulate, what_if

_COMMANDS: Mapping[str, tuple[Callable[..., None], list[str]]] = {
    "assign": (assign.assign_files, ["assign --check recordings/orders.jsonl.gz"]),
    "decode": (decode.decode_bytes, ["decode @subscription.bin --as subscription"]),
    "explain": (
        explain.explain_files,
        ["explain recordings/orders.jsonl.gz", "explain --group orders --task 0_3 --last 5"],
    ),
    "diff": (diff.diff_files, ["diff orders.jsonl.gz#orders.3 orders.jsonl.gz#orders.4"]),
    "what-if": (what_if.what_if_files, ["what-if orders.jsonl.gz --add-instances 2x4 --remove orders-7"]),
    "simulate": (simulate.simulate_files, ["simulate orders.jsonl.gz --set max.warmup.replicas=4"]),
}
"""The commands with their functions and examples. The help text of `assignor` shows the commands in this order.
"""


def register(app: typer.Typer) -> None:
    for name, (command, examples) in _COMMANDS.items():
        app.command(name, epilog=example(*examples))(command)
