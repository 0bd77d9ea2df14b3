"""`python -m benchmarks [--quick] [NAME ...]`: runs all benchmarks, or those named, and prints a table each.

`--quick`: small sizes, which show that a benchmark works, not how fast anything is.
"""

import argparse
import signal
import sys
from collections.abc import Sequence

from rich.console import Console

from benchmarks import (
    batches,
    failover,
    failover_defaults,
    heartbeat_flow,
    idle,
    kafka_log,
    kills,
    minimal_movement,
    processing_rate,
    promotion,
    replay,
    replay_engines,
    restore_kill,
    restore_memory,
    restore_rate,
    restore_transaction_memory,
    restore_transactions,
    standby_rate,
    window_memory,
)
from benchmarks.group_load import running as group_load
from benchmarks.jvm_leader import running as jvm_leader
from benchmarks.jvm_runtime import running as jvm_runtime
from benchmarks.latency import running as latency
from benchmarks.storage_faults import running as storage_faults

BENCHMARKS = {
    "replay": replay.run,
    "replay-engines": replay_engines.run,
    "jvm-leader": jvm_leader.run,
    "minimal-movement": minimal_movement.run,
    "restore-rate": restore_rate.run,
    "restore-memory": restore_memory.run,
    "restore-kill": restore_kill.run,
    "restore-transactions": restore_transactions.run,
    "restore-transaction-memory": restore_transaction_memory.run,
    "standby-rate": standby_rate.run,
    "window-memory": window_memory.run,
    "processing-rate": processing_rate.run,
    "batches": batches.run,
    "jvm-runtime": jvm_runtime.run,
    "failover": failover.run,
    "failover-defaults": failover_defaults.run,
    "kills": kills.run,
    "promotion": promotion.run,
    "kafka-log": kafka_log.run,
    "group-load": group_load.run,
    "heartbeat-flow": heartbeat_flow.run,
    "storage-faults": storage_faults.run,
    "latency": latency.run,
    "idle": idle.run,
}

WITH_OPTIONS = {
    "failover-defaults": failover_defaults.run_with_options,
    "group-load": group_load.run_with_options,
    "idle": idle.run_with_options,
    "jvm-leader": jvm_leader.run_with_options,
    "jvm-runtime": jvm_runtime.run_with_options,
    "kills": kills.run_with_options,
    "latency": latency.run_with_options,
    "storage-faults": storage_faults.run_with_options,
    "window-memory": window_memory.run_with_options,
}
"""They take options of their own when they are run alone: `python -m benchmarks failover-defaults --help`."""


def main(arguments: Sequence[str]) -> int:
    name, *own = arguments or ("",)
    if name in WITH_OPTIONS and any(each.startswith("-") and each != "--quick" for each in own):
        WITH_OPTIONS[name](Console(width=130), own)
        return 0
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description="Measure, and print a table for each benchmark."
    )
    parser.add_argument("names", metavar="NAME", nargs="*", help=f"one of {', '.join(BENCHMARKS)}; none: all of them")
    parser.add_argument("--quick", action="store_true", help="small sizes, to see that it works")
    options = parser.parse_args(arguments)
    if unknown := [name for name in options.names if name not in BENCHMARKS]:
        parser.error(f"there is no benchmark {', '.join(unknown)}; choose from {', '.join(BENCHMARKS)}")
    console = Console(width=130)
    for name in options.names or BENCHMARKS:
        BENCHMARKS[name](console, quick=options.quick)
    return 0


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # what was started is ended
    sys.exit(main(sys.argv[1:]))
