"""`--watch`: a result that is shown again and again, until Ctrl-C."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable
from datetime import datetime

from rich.console import Console
from rich.live import Live
from rich.text import Text

from assignor.errors import AssignorFault
from assignor.printable import lines
from assignor_cli.console import say


def watch_results(result: Callable[[], str], interval_s: float, *, repaint: bool) -> None:
    """Returns at Ctrl-C. On a terminal, with `repaint`, the result replaces the one before, and the last one stays on
    the screen. Otherwise each result that differs from the one before is printed, after a blank line when it has
    several lines. Raises what `result` raises the first time; a later AssignorFault is reported, and the result is
    asked for again.
    """
    with contextlib.suppress(KeyboardInterrupt):
        first = result()
        if repaint and sys.stdout.isatty():
            _repaint(first, result, interval_s)
        else:
            _print_changes(first, result, interval_s)


def _print_changes(first: str, result: Callable[[], str], interval_s: float) -> None:
    last, failure = first, ""
    print(first, flush=True)
    while True:
        time.sleep(interval_s)
        try:
            now, failure = result(), ""
        except AssignorFault as fault:
            if str(fault) != failure:
                failure = str(fault)
                say(f"error: {failure}")
            continue
        if now != last:
            last = now
            print(f"\n{now}" if "\n" in now and not now.startswith("---") else now, flush=True)


def _repaint(first: str, result: Callable[[], str], interval_s: float) -> None:
    """The result has the whole screen, and what it was at the end stays when the screen is given back."""
    last, last_at = first, datetime.now()
    try:
        with Live(Text(first), console=Console(), screen=True, auto_refresh=False) as live:
            while True:
                time.sleep(interval_s)
                try:
                    last, last_at = result(), datetime.now()
                except AssignorFault as fault:
                    live.update(Text(f"No news since {last_at:%H:%M:%S}: {lines(str(fault))}\n\n{last}"), refresh=True)
                else:
                    live.update(Text(last), refresh=True)
    except KeyboardInterrupt:
        print(last, flush=True)
