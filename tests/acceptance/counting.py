"""The word count of the demo, exactly once, with times that suit tests which kill what runs it."""

from spark_jobs.demo.word_count import COUNT_STORE, LINES, word_count
from streams_runtime.instance.application import Application
from streams_runtime.local_run.local_run import ProgressMeter
from streams_runtime.logs.base import Log


def exactly_once_word_count(application_id: str, address: str, **configs: object) -> Application:
    """`address`: of its log. `configs`: dotted names with underscores for dots, over these."""
    return word_count(
        {
            "application.id": application_id,
            "bootstrap.servers": address,
            "processing.guarantee": "exactly_once_v2",
            "commit.interval.ms": 100,
            "heartbeat.interval.ms": 200,
            **{name.replace("_", "."): value for name, value in configs.items()},
        }
    )


def meter_of(log: Log, application_id: str) -> ProgressMeter:
    """How far it has read its lines, and then its words."""
    return ProgressMeter(log, application_id, (LINES, f"{application_id}-{COUNT_STORE}-repartition"))
