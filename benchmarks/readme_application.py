"""The application that README.md shows, with the commands that README.md gives, read from that page.

Nothing is changed but the address of the log. What has to be somewhere (the database, the coordinator's port, the
directories for state and ownership logs) is added to the commands.
"""

import re
import shlex
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

README = Path(__file__).parent.parent / "README.md"
ADDRESS = "embedded:/var/lib/words"
MODULE, NAME = "my_module", "app"
APPLICATION_ID = "words"
LINES, RESULTS, PARTITIONS = "lines", "word-counts", 4
STATELESS, STATEFUL = "0", "1"
"""Its subtopologies: the first splits lines into words, the second counts them."""
INSTANCES, THREADS = 3, 2

_BLOCK = r"^## An application\n\n```python\n(?P<code>.*?)^```\n\n```shell\n(?P<commands>.*?)^```$"
_ASSIGNOR = [sys.executable, "-c", "from assignor_cli.app import main; main()"]


def module_text(bootstrap_servers: str) -> str:
    """The module that README shows, on this log."""
    return _readme()["code"].replace(f'"{ADDRESS}"', f'"{bootstrap_servers}"')


def create_topics(bootstrap_servers: str) -> None:
    """README's first command. Raises CalledProcessError."""
    assignor, *arguments = _commands(bootstrap_servers)[0]
    assert (assignor, *arguments[:2]) == ("assignor", "topics", "create"), "the first command creates the topics"
    subprocess.run([*_ASSIGNOR, *arguments], check=True, stdout=subprocess.DEVNULL)  # noqa: S603


def coordinator_settings(bootstrap_servers: str) -> Mapping[str, object]:
    """The settings of README's second command, `assignor serve`, under dotted names."""
    assignor, serve, *options = _commands(bootstrap_servers)[1]
    assert (assignor, serve) == ("assignor", "serve"), "the second command starts the coordinator"
    names = [name.removeprefix("--").replace("-", ".") for name in options[::2]]
    return dict(zip(names, options[1::2], strict=True))


def workers_command(coordinator_url: str, state_dir: Path, log_dir: Path) -> list[str]:
    """README's third command, `assignor workers run`, to be run where the module is."""
    assignor, *arguments = _commands(ADDRESS)[2]
    assert (assignor, *arguments[:3]) == ("assignor", "workers", "run", f"{MODULE}:{NAME}"), "the third runs instances"
    places = {"--coordinator": coordinator_url, "--state-dir": str(state_dir), "--log-dir": str(log_dir)}
    return [*_ASSIGNOR, *arguments, *(text for option in places.items() for text in option)]


def _commands(bootstrap_servers: str) -> list[list[str]]:
    text = _readme()["commands"].replace(ADDRESS, bootstrap_servers)
    return [shlex.split(line) for line in text.splitlines()]


def _readme() -> Mapping[str, str]:
    found = re.search(_BLOCK, README.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    assert found is not None, "README.md shows an application and three commands"
    return found.groupdict()
