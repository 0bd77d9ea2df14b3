"""The program's first moment."""

import signal
import subprocess
import sys

import pytest

INTERRUPTED_WHILE_IMPORTING = """
import os, signal, sys
from importlib.abc import MetaPathFinder
from assignor_cli.program import main

class Interrupts(MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == "assignor_cli.app":
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupts())
sys.argv = ["assignor", "--version"]
assert "assignor.pipeline" not in sys.modules, "the library is loaded before the program has begun"
{before}
main()
"""


@pytest.mark.parametrize(
    "before, code, said",
    [("pass", -signal.SIGINT, ""), ("signal.signal(signal.SIGINT, signal.SIG_IGN)", 0, "assignor ")],
    ids=["as a shell starts it", "ignored"],
)
def test_should_end_silently_when_it_is_interrupted_while_imported(before: str, code: int, said: str) -> None:
    program = INTERRUPTED_WHILE_IMPORTING.format(before=before)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)

    assert (done.returncode, done.stderr) == (code, "")
    assert done.stdout.startswith(said)
