"""The bugs that the simulation has to find by itself from every start, one at a time."""

from __future__ import annotations

from tests.simulation.bug import Bug
from tests.simulation.bugs_of_group import BUGS_OF_GROUP
from tests.simulation.bugs_of_lease import BUGS_OF_LEASE
from tests.simulation.bugs_of_members import BUGS_OF_MEMBERS
from tests.simulation.bugs_of_stored_groups import BUGS_OF_STORED_GROUPS
from tests.simulation.bugs_of_tasks import BUGS_OF_TASKS

BUGS: tuple[Bug, ...] = (*BUGS_OF_GROUP, *BUGS_OF_STORED_GROUPS, *BUGS_OF_LEASE, *BUGS_OF_MEMBERS, *BUGS_OF_TASKS)


def named(name: str) -> Bug:
    """Raises KeyError."""
    return {each.name: each for each in BUGS}[name]
