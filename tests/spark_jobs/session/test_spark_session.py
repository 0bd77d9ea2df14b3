"""A session that cannot start leaves nothing behind and says why."""

from __future__ import annotations

import os

import pytest

from spark_jobs.session.spark_faults import SparkNotStarted
from spark_jobs.session.spark_session import spark_session


@pytest.mark.spark
def test_should_say_what_the_jvm_said_when_spark_does_not_start() -> None:
    before = dict(os.environ)
    with (
        pytest.raises(SparkNotStarted, match="nonsense"),
        spark_session("local[1]", "broken", conf={"spark.driver.memory": "nonsense"}),
    ):
        pass
    assert dict(os.environ) == before
