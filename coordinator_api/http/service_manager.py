"""Tells the service manager that the service is ready, still alive, and about to end: systemd's `Type=notify`.

A message is one datagram to the socket that the manager names. Source: sd_notify(3). Without a manager nobody is told.
"""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Mapping


class ServiceManager:
    """`environment`: of this process, in which the manager says where it listens, and how often it wants to hear."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        address = environment.get("NOTIFY_SOCKET", "")
        self._address = "\0" + address[1:] if address.startswith("@") else address
        for_us = environment.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid())
        given_us = environment.get("WATCHDOG_USEC", "")
        self._every_s = int(given_us) / 2_000_000 if for_us and given_us.isdecimal() else None
        self._due_s = 0.0

    def ready(self, status: str) -> None:
        """It answers from now on. `status`: one line for whoever asks the manager."""
        self._tell(f"READY=1\nSTATUS={status}")

    def stopping(self) -> None:
        self._tell("STOPPING=1\nSTATUS=answers what is under way, and ends")

    def alive(self, now_s: float) -> None:
        """To be called often, with a clock that only goes forward. Tells it twice in the time that it waits."""
        if self._every_s is not None and now_s >= self._due_s:
            self._due_s = now_s + self._every_s
            self._tell("WATCHDOG=1")

    def _tell(self, message: str) -> None:
        if not self._address:
            return
        # a manager that went away is no reason to stop serving
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as way:
            way.setblocking(False)
            way.sendto(message.encode(), self._address)
