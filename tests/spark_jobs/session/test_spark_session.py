"""A session that cannot start leaves nothing behind and says why."""

from __future__ import annotations

import os
import sys

import pytest

from spark_jobs.session.spark_session import SparkNotStarted, spark_session


@pytest.mark.spark
def test_should_say_what_the_jvm_said_when_spark_does_not_start() -> None:
    before = dict(os.environ)
    with (
        pytest.raises(SparkNotStarted, match="nonsense"),
        spark_session("local[1]", "broken", conf={"spark.driver.memory": "nonsense"}),
    ):
        pass
    assert dict(os.environ) == before


@pytest.mark.spark
def test_should_leave_no_archive_in_the_path_of_this_process_when_a_session_ends() -> None:
    before = list(sys.path)
    with spark_session("local[1]", "path") as spark:
        assert spark.range(1).count() == 1
        assert sys.path != before
    assert sys.path == before
