"""The application in this process, with an audit log, for callers of each right."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from coordinator_api.web import login_page
from coordinator_client.access.principals import Right
from tests.coordinator_api.http.tenants import Tenants, tenants

PRINCIPALS = {
    "root": (Right.ADMIN, ""),
    "olga": (Right.OPERATOR, ""),
    "mia": (Right.MEMBER, ""),
    "rita": (Right.READER, ""),
    "tom": (Right.ADMIN, "a-"),
}


@pytest.fixture(autouse=True)
def quick_logins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(login_page, "TRY_S", 0.05)


@pytest.fixture
async def service(tmp_path: Path) -> AsyncIterator[Tenants]:
    async with tenants(tmp_path, PRINCIPALS, audit_log_file=tmp_path / "audit.log") as running:
        yield running
