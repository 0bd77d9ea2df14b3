"""What a program says on stderr while it runs."""

import re
import subprocess
import threading

TIMEOUT_S = 240.0
"""Spark starts within seconds, and on a machine that is busy with other tests within minutes."""


class Talk:
    """What a process says on stderr, read while it runs."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.text = ""
        self._process = process
        self._changed = threading.Condition()
        self._ended = False
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def wait_for(self, pattern: str) -> str:
        """The first line so far, or to come, that matches from its beginning to its end."""
        found: list[str] = []

        def said() -> bool:
            found[:] = re.findall(rf"^{pattern}$", self.text, re.MULTILINE)[:1]
            return bool(found) or self._ended

        with self._changed:
            self._changed.wait_for(said, TIMEOUT_S)
        assert found, f"{pattern!r} did not come:\n{self.text}"
        return found[0]

    def wait_for_end(self) -> str:
        """Its stdout."""
        self._process.wait(TIMEOUT_S)
        self._reader.join(TIMEOUT_S)
        assert self._process.stdout is not None
        return self._process.stdout.read()

    def _read(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            with self._changed:
                self.text += line
                self._changed.notify_all()
        with self._changed:
            self._ended = True
            self._changed.notify_all()
