"""A standalone Spark master and worker as processes on loopback, stopped by their pids."""

import os
import signal
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from spark_engine.session.spark_installation import spark_environment
from spark_engine.session.spark_options import LOOPBACK
from tests.running_program import RunningProgram

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

        def start(name: str, *command: str) -> RunningProgram:
            program = RunningProgram(
                [spark_class, *command], directory / name, environment=environment, first=signal.SIGTERM
            )
            return running.enter_context(program)

        url = start("master.log", *_MASTER).wait_for(r"Starting Spark master at (spark://\S+)")
        for number in range(workers):
            size = ["--cores", str(cores), "--memory", "2g", "--work-dir", str(directory / f"work-{number}")]
            start(f"worker-{number}.log", *_WORKER, *size, url).wait_for(_REGISTERED)
        yield url
