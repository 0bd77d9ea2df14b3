"""Random faults of stream threads, their log and their disks. `python -m tests.kills.random_faults` runs more."""

import secrets
import time
from itertools import count, takewhile

import pytest

from tests.kills.random_faults import run_rounds

SEEDS, FEW_STEPS, SOAK_S = (5,), 25, 40


def test_should_keep_every_rule_under_random_faults() -> None:
    _, broken = run_rounds(SEEDS, steps=FEW_STEPS)

    assert broken == []


@pytest.mark.long
@pytest.mark.soak
def test_should_keep_every_rule_under_many_random_faults() -> None:
    end_s = time.monotonic() + SOAK_S

    met, broken = run_rounds(takewhile(lambda _: time.monotonic() < end_s, count(secrets.randbits(32))))

    assert broken == []
    assert met["stores examined"] > 0
