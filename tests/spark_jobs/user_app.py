"""What a user would name on the command line: `tests.spark_jobs.user_app:application`."""

import os
from pathlib import Path

from streams_runtime.instance.application import Application
from tests.spark_jobs.small_application import small_application

GROUP_ID = "user-app"
LOG_VARIABLE = "USER_APP_LOG"


def application() -> Application:
    return small_application(GROUP_ID, Path(os.environ[LOG_VARIABLE]))


def with_relative_log() -> Application:
    return small_application(GROUP_ID, Path("records"))


def with_fixed_endpoint() -> Application:
    return small_application(GROUP_ID, Path(os.environ[LOG_VARIABLE]), application_server="127.0.0.1:7070")
