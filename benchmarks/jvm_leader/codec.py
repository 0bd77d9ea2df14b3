"""MB a second of the codecs, both directions: the subscriptions and the assignments of one rebalance, as they are sent.

Decoding ends at a member's tasks and offset sums, in the user data; encoding begins there.
"""

from collections.abc import Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from statistics import median

from assignor.pipeline.snapshot import RebalanceSnapshot
from benchmarks.jvm_leader.measuring import Effort, Say, prepared, warm_up
from benchmarks.turns import in_turns

OPERATIONS = ("decode-subscriptions", "encode-subscriptions", "decode-assignments", "encode-assignments")


def measure_codec(
    snapshot: RebalanceSnapshot, directory: Path, effort: Effort, *, with_jvm: bool, say: Say
) -> Mapping[str, Mapping[str, float]]:
    """By operation and contender: MB for each second of CPU of the thread that works, warm."""
    rates: dict[str, dict[str, float]] = {}
    with ExitStack() as stack:
        start = prepared(snapshot, directory, with_jvm=with_jvm)
        running = {name: stack.enter_context(begin()) for name, begin in start.items()}
        for contender in running.values():
            contender.run()
        for operation in OPERATIONS:
            say(f"codec: {operation}")
            passes = {name: partial(contender.codec, operation) for name, contender in running.items()}
            for name, one_pass in passes.items():
                warm_up(one_pass, effort.warm_up_s / 2, effort.warm_up_runs(name))
            rates[operation] = {
                name: median(times.size_bytes / 1e3 / times.cpu_ms for times in of_it)
                for name, of_it in in_turns(passes, effort.runs).items()
            }
    return rates
