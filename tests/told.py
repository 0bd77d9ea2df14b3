"""What a test has to say to the reader of a run: seeds, tables, times. Shown at the end, whichever process ran it."""

from collections.abc import Callable

import pytest

Tell = Callable[[str], None]

PROPERTY = "told"


def told(reports: list[object]) -> list[tuple[str, str]]:
    """Of all reports of a run, the test and each text, in the order said."""
    return [
        (report.nodeid, str(text))
        for report in reports
        if isinstance(report, pytest.TestReport) and report.when == "call"
        for name, text in report.user_properties
        if name == PROPERTY
    ]
