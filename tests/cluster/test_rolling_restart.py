"""A rolling restart of a small cluster of real coordinators. `make test-cluster` is for all that can go wrong."""

from pathlib import Path

import pytest

from tests.cluster.cluster import ClusterSize
from tests.cluster.rolling_restart import rolling_restart
from tests.coordinator_api.store.postgresql import programs
from tests.told import Tell

SEED = 11

pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(1_800),
    pytest.mark.skipif(programs() is None, reason="no PostgreSQL on this machine"),
    pytest.mark.xdist_group("postgresql"),
]


async def test_should_restart_all_coordinators_under_members_that_notice_nothing(tmp_path: Path, tell: Tell) -> None:
    size = ClusterSize(coordinators=3, members=60, groups=3)
    rolled = await rolling_restart(size, tmp_path, SEED, tell, quiet_s=1.0)

    said = "\n".join(rolled.report())
    tell(said)
    assert rolled.is_valid, said
    assert len(rolled.heartbeats_ms) >= size.members
