"""An environment like this one, on a machine that has no Java."""

import os
import shutil
from pathlib import Path

SPARK_SCRIPTS_NEED = ("bash", "sh", "env", "ps", "dirname", "uname", "cat", "mkdir", "rm", "ls", "sed", "grep", "chmod")


def environment_without_java(directory: Path) -> dict[str, str]:
    """PATH leads to what Spark's scripts call, by links in `directory`, and to nothing else."""
    programs = directory / "bin"
    programs.mkdir()
    for name in SPARK_SCRIPTS_NEED:
        found = shutil.which(name)
        if found is not None:
            (programs / name).symlink_to(found)
    return {key: value for key, value in os.environ.items() if key != "JAVA_HOME"} | {"PATH": str(programs)}
