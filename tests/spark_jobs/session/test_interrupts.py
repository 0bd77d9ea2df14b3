"""What interrupts a command, whoever started it."""

import signal
import subprocess
import sys

import pytest

from spark_engine.session.interrupts import interruptible, undisturbed
from tests.known import known

PROGRAM = """
import signal, sys
from assignor_cli.console import exit_code_of_signal
from spark_engine.session.interrupts import interruptible
before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
try:
    with interruptible():
        print("ready", flush=True)
        sys.stdin.read()
except KeyboardInterrupt as interrupt:
    assert before == [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    sys.exit(exit_code_of_signal(interrupt))
"""


@pytest.mark.parametrize("number, exit_code", [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_should_be_interrupted_when_it_was_started_with_sigint_ignored(number: signal.Signals, exit_code: int) -> None:
    shell = f"trap '' INT; exec {sys.executable} -c \"$0\""
    with subprocess.Popen(
        ["/bin/sh", "-c", shell, PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert known(process.stdout).readline() == "ready\n"
        process.send_signal(number)
        assert process.wait(30) == exit_code


SWALLOWED = """
import signal, sys, threading
from assignor_cli.console import exit_code_of_signal
from spark_engine.session.interrupts import interruptible

class Finalized:
    def __del__(self):
        signal.raise_signal(signal.{name})
        threading.Event().wait(0.001)

try:
    with interruptible():
        Finalized()
        print("ready", flush=True)
        threading.Event().wait(60)
except KeyboardInterrupt as interrupt:
    assert sys.unraisablehook is sys.__unraisablehook__
    sys.exit(exit_code_of_signal(interrupt))
"""


@pytest.mark.parametrize("name, exit_code", [("SIGINT", 130), ("SIGTERM", 143)])
def test_should_be_interrupted_when_the_signal_arrives_while_a_finalizer_runs(name: str, exit_code: int) -> None:
    program = SWALLOWED.replace("{name}", name)
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=30, check=False)

    assert (ended.returncode, ended.stdout, ended.stderr) == (exit_code, "ready\n", "")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_should_wait_until_undisturbed_steps_have_ended(number: signal.Signals) -> None:
    steps = []

    def two_steps() -> None:
        with undisturbed():
            signal.raise_signal(number)
            steps.append("first")
        steps.append("second")

    with pytest.raises(KeyboardInterrupt) as interrupted, interruptible():
        two_steps()

    assert (interrupted.value.args, steps) == ((number,), ["first"])


def test_should_leave_alone_what_has_no_handler() -> None:
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        with undisturbed():
            assert signal.getsignal(signal.SIGTERM) is signal.SIG_IGN
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGTERM, before)
