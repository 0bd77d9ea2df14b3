"""A standalone Spark master and worker as processes on loopback, stopped by their pids."""

import os
import re
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from spark_engine.session.spark_installation import spark_environment
from spark_engine.session.spark_options import LOOPBACK

START_TIMEOUT_S = 120.0
_MASTER = ("org.apache.spark.deploy.master.Master", "--host", LOOPBACK, "--port", "0", "--webui-port", "0")
_WORKER = ("org.apache.spark.deploy.worker.Worker", "--host", LOOPBACK, "--webui-port", "0")

_REGISTERED = r"Successfully registered with master (\S+)"


@contextmanager
def standalone_cluster(cores: int, workers: int = 1) -> Iterator[str]:
    """A master with `workers` workers of `cores` cores each; gives the master's URL."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name, ExitStack() as running:
        directory = Path(name)
        environment = {**os.environ, **spark_environment(directory, "INFO"), "SPARK_LOCAL_IP": LOOPBACK}
        spark_class = str(directory / "spark-home" / "bin" / "spark-class")
        master = _Process(running, [spark_class, *_MASTER], environment, directory / "master.log")
        url = master.wait_for(r"Starting Spark master at (spark://\S+)")
        for number in range(workers):
            size = ["--cores", str(cores), "--memory", "2g", "--work-dir", str(directory / f"work-{number}")]
            log = directory / f"worker-{number}.log"
            _Process(running, [spark_class, *_WORKER, *size, url], environment, log).wait_for(_REGISTERED)
        yield url


class _Process:
    """Ended with `running`; its output goes to `log`."""

    def __init__(self, running: ExitStack, command: list[str], environment: dict[str, str], log: Path) -> None:
        self._log = log
        with log.open("wb") as output:
            self._process = subprocess.Popen(command, env=environment, stdout=output, stderr=output)
        running.callback(self._end)

    def wait_for(self, pattern: str) -> str:
        """The first group of `pattern`, once the process has said so."""
        deadline_s = time.monotonic() + START_TIMEOUT_S
        while time.monotonic() < deadline_s and self._process.poll() is None:
            found = re.search(pattern, self._log.read_text(errors="replace"))
            if found is not None:
                return found[1]
            time.sleep(0.05)
        raise AssertionError(f"{pattern!r} did not come:\n{self._log.read_text(errors='replace')}")

    def _end(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(20.0)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
