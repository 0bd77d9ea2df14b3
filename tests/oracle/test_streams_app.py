"""The Java application is the one that the Python runtime builds: what both make of one input can be compared."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_jobs.demo.word_count import word_count
from tests.oracle.streams_app import topology_description

pytestmark = pytest.mark.java


def test_should_have_the_nodes_stores_and_topics_of_the_python_application(oracle_jars: str, tmp_path: Path) -> None:
    application = word_count({"application.id": "same", "bootstrap.servers": "127.0.0.1:1"})
    assert topology_description("word-count", tmp_path) == application.topology.describe()
