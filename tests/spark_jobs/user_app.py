"""What a user would name on the command line: `tests.spark_jobs.user_app:definition`."""

from __future__ import annotations

from spark_jobs.definition import GroupDefinition
from tests.streams_runtime.small_group import small_definition

GROUP_ID = "user-app"


def definition() -> GroupDefinition:
    return small_definition(GROUP_ID)
