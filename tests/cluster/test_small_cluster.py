"""A small cluster of real coordinators: one fault of each kind, and a rolling restart."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.cluster.cluster import ClusterSize
from tests.cluster.fault_kinds import KINDS
from tests.cluster.report import report
from tests.cluster.rolling_restart import rolling_restart
from tests.cluster.running import RunSettings, run
from tests.coordinator_api.store.postgresql import programs
from tests.told import Tell

SEED = 11

pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(1_800),
    pytest.mark.skipif(programs() is None, reason="no PostgreSQL on this machine"),
    pytest.mark.xdist_group("postgresql"),
]


@pytest.mark.spark
async def test_should_evict_nobody_and_take_nothing_back_whatever_fails(tmp_path: Path, tell: Tell) -> None:
    size = ClusterSize(coordinators=3, members=36, groups=3)
    happened, findings = await run(RunSettings(SEED, len(KINDS), tmp_path / "run", size), tell)

    said = "\n".join(report(happened, findings))
    tell(said)
    assert findings.is_valid, said
    possible = {each.name for each in KINDS} - set(findings.left_out)
    assert Counter(each.kind for each in happened).keys() == possible


async def test_should_restart_all_coordinators_under_members_that_notice_nothing(tmp_path: Path, tell: Tell) -> None:
    size = ClusterSize(coordinators=3, members=60, groups=3)
    rolled = await rolling_restart(size, tmp_path, SEED, tell, quiet_s=1.0)

    said = "\n".join(rolled.report())
    tell(said)
    assert rolled.is_valid, said
    assert len(rolled.heartbeats_ms) >= size.members
