"""The one sentence of what Spark says."""

from pathlib import Path

import pytest

from spark_engine.session.spark_faults import LONGEST_REASON, reason_in, reason_in_log, reason_of

HERE = Path(__file__).parent
JOB_FAILED, OF_PYTHON = ((HERE / f"{name}.txt").read_text() for name in ("job_failed", "python_failed"))


@pytest.mark.parametrize(
    "text,reason",
    [
        (OF_PYTHON, "my_shop.errors.StateLost: the state of 0_1 is gone"),
        (JOB_FAILED.format(error=OF_PYTHON), "my_shop.errors.StateLost: the state of 0_1 is gone"),
        (
            JOB_FAILED.format(error='java.io.IOException: Cannot run program "/x/python": error=2'),
            '(10.0.0.7 executor 1): java.io.IOException: Cannot run program "/x/python": error=2',
        ),
        ("org.apache.spark.SparkException: Job 3 cancelled by user\n\tat a.b(C.scala:1)", "Job 3 cancelled by user"),
        ("Traceback (most recent call last):\n  cut off", "Traceback (most recent call last):"),
        ("", ""),
    ],
)
def test_should_say_what_failed_without_frames(text: str, reason: str) -> None:
    assert reason_in(text) == reason


@pytest.mark.parametrize(
    "said,reason",
    [
        (
            'WARNING: Using incubator modules\nException in thread "main" org.apache.spark.SparkException: '
            "Master must either be yarn or start with spark\n\tat a.B.c(B.scala:1)\nsomething later",
            "Master must either be yarn or start with spark",
        ),
        ("Error: Could not find or load main class x.Y\nCaused by: z", "Error: Could not find or load main class x.Y"),
        (
            "Invalid maximum heap size: -Xmxnonsense\nError: Could not create the Java Virtual Machine.",
            "Invalid maximum",
        ),
        (
            "/opt/spark/bin/spark-class: line 71: /opt/java/bin/java: No such file",
            "/opt/spark/bin/spark-class: line 71",
        ),
        ("", "it said nothing"),
    ],
)
def test_should_say_why_a_jvm_ended(said: str, reason: str) -> None:
    assert reason_in_log(said).startswith(reason)


def test_should_stay_one_line_of_some_length() -> None:
    assert len(reason_in("x" * 10_000)) == LONGEST_REASON
    assert reason_of(ConnectionRefusedError(111, "refused")) == "Spark's JVM has ended"
    assert reason_of(ValueError()) == "ValueError"
