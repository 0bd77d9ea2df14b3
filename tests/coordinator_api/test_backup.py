"""A copy of a database in use, made as docs/how-to/deploy-the-coordinator.md says, is one that a service takes over."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.coordinator_api.group_members import HttpMember, new_group, problem, settle
from tests.coordinator_api.service_process import ServiceProcess
from tests.docs.pages import blocks

PAGE = "docs/how-to/deploy-the-coordinator.md"
QUICK = ("--group-initial-rebalance-delay-ms", "50")


@pytest.mark.long
def test_should_go_on_with_a_copy_and_have_members_that_it_does_not_know_join_again(tmp_path: Path) -> None:
    (backup,) = (block.code for block in blocks(PAGE) if block.language == "python")
    copy = tmp_path / "copy.sqlite3"
    code = backup.replace("/var/lib/assignor", str(tmp_path)).replace("/var/backups/assignor.sqlite3", str(copy))
    with ServiceProcess(tmp_path, *QUICK) as service:
        with service.client() as client:
            group_id = new_group(client)
            known = HttpMember(client, group_id)
            known.subscribe()
            settle(known)
            exec(code, {})
            later = HttpMember(client, group_id)
            later.subscribe()
            settle(known, later)
        service.kill()

        for left in tmp_path.glob("assignor.sqlite3*"):
            left.unlink()
        shutil.copy(copy, tmp_path / "assignor.sqlite3")
        service.start()
        with service.client() as client:
            known.client = later.client = client
            assert problem(later.heartbeat()) == (404, "UNKNOWN_MEMBER_ID")
            assert problem(known.heartbeat()) == (409, "ILLEGAL_GENERATION")
            later.member_id, later.active, later.generation_id = None, (), 0
            for member in (known, later):
                assert member.subscribe().is_success
            settle(known, later)
            assert len({*known.active, *later.active}) == 4
