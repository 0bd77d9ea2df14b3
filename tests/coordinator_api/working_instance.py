"""For tests: an instance that restores what it is given, and says so."""

from tests.coordinator_api.group_members import HttpMember

END = 1_000
"""The end of each changelog of `group_members.definition`."""


class WorkingInstance(HttpMember):
    """Restores at once what it is given, and reports it with its heartbeats."""

    def restored(self) -> dict[str, int]:
        """The offset sums of its standby tasks."""
        return dict.fromkeys(self.standby, END)

    def works(self) -> None:
        """One heartbeat, and what it asks for."""
        told = self.heartbeat(task_offset_sums={**dict.fromkeys(self.active, -2), **self.restored()}).json()
        if told["rejoin"]:
            assert self.subscribe(self.restored()).status_code == 200
        elif told["generation_id"] > self.generation_id and told["state"] == "Stable":
            assert self.fetch(min_generation=told["generation_id"]).status_code == 200
