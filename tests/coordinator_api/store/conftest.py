"""Each kind of database, for tests of what has to be the same on both."""

from pathlib import Path

import pytest

from coordinator_api.settings import Settings
from tests.coordinator_api.store.databases import settings_for


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Settings:
    """Of a coordinator on an empty database."""
    if request.param == "sqlite":
        return settings_for(tmp_path)
    settings: Settings = request.getfixturevalue("on_postgresql")
    return settings
