"""Exactly-once, on Kafka or on the embedded log: the program is killed twice while it works, and no payment is counted
twice.

Each transaction has the output, the changes of the state, and the offsets of the input. It is committed as a whole or
not at all, and a consumer with `read_committed` sees only committed transactions.

Run it: python examples/exactly_once.py                  on an embedded log
        python examples/exactly_once.py localhost:9092   on a Kafka cluster
"""

import os
import subprocess
import sys
import tempfile
import threading
import time
import uuid

from streams_runtime import (
    LONG,
    STRING,
    Application,
    LocalRun,
    NewTopic,
    RecordProducer,
    StreamsBuilder,
    Topology,
    open_log,
    read_topic,
)

PAYMENTS, ACCOUNTS = 20_000, 10
LIFE_S = 1.0
"""The first two runs are killed this long after they begin to work."""


def topology(run: str) -> Topology:
    builder = StreamsBuilder()
    balances = builder.stream(f"payments-{run}", STRING, LONG).group_by_key()
    summed = balances.reduce(lambda balance, cents: balance + cents, store="balances")
    summed.to_stream().to(f"balances-{run}", key_serde=STRING, value_serde=LONG)
    return builder.build()


def work(servers: str, run: str, directory: str, *, is_killed: bool) -> None:
    """Run the application in this process until everything is processed, or until the process is killed."""
    app = Application(
        topology(run),
        {
            "application.id": f"balances-{run}",
            "bootstrap.servers": servers,
            "state.dir": f"{directory}/state",
            "processing.guarantee": "exactly_once_v2",
        },
    )
    with LocalRun(app) as local:
        local.wait_until_running()
        if is_killed:
            threading.Timer(LIFE_S, os.kill, (os.getpid(), 9)).start()
            time.sleep(60)
        local.wait_until_caught_up()


def main(servers: str | None) -> None:
    directory, run = tempfile.mkdtemp(), uuid.uuid4().hex[:6]
    servers = servers or f"embedded:{directory}/log"
    log = open_log(servers)
    log.create_topics([NewTopic(f"payments-{run}", partitions=2), NewTopic(f"balances-{run}", partitions=2)])
    with RecordProducer(log, STRING, LONG) as payments:
        for number in range(PAYMENTS):
            payments.send(f"payments-{run}", f"account-{number % ACCOUNTS}", 1)

    for attempt in ("killed", "killed", "finished"):
        done = subprocess.run([sys.executable, __file__, "work", servers, run, directory, attempt])
        print(f"{attempt}: exit code {done.returncode}")

    balances: dict[str | None, int | None] = {}
    for record in read_topic(log, f"balances-{run}", STRING, LONG):  # a consumer that reads committed records only
        balances[record.key] = record.value
    for account, balance in sorted(balances.items(), key=str):
        print(f"{account}: {balance} payments")


if __name__ == "__main__":
    if sys.argv[1:2] == ["work"]:
        work(*sys.argv[2:5], is_killed=sys.argv[5] == "killed")
    else:
        main(sys.argv[1] if len(sys.argv) > 1 else None)
