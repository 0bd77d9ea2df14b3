"""A session has what the user set, and one that cannot start leaves nothing behind and says why."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pyspark import SparkContext

from assignor.errors import InputError
from spark_engine.session.interrupts import interruptible
from spark_engine.session.spark_faults import SparkNotStarted
from spark_engine.session.spark_options import SparkOptions
from spark_engine.session.spark_session import driver_jvm, spark_session


@pytest.mark.spark
def test_should_say_what_the_jvm_said_when_spark_does_not_start(tmp_path: Path) -> None:
    before = dict(os.environ)
    log = tmp_path / "driver.log"
    options = SparkOptions("local[1]", {"spark.driver.memory": "nonsense"}, log_file=log)
    with (
        pytest.raises(SparkNotStarted, match=rf"^Spark did not start: .*nonsense \(its log: {log}\)$"),
        spark_session(None, "broken", options=options),
    ):
        pass
    assert dict(os.environ) == before
    assert "nonsense" in log.read_text()


@pytest.mark.parametrize(
    "master,message",
    [
        ("spark://127.0.0.1:1", r"^no Spark master answers at 127\.0\.0\.1:1 \(Connection refused\): is --master "),
        ("spark://127.0.0.1:1,localhost:1", r"^no Spark master answers at 127\.0\.0\.1:1 \(.*\), localhost:1 \("),
    ],
)
def test_should_miss_a_master_at_once(master: str, message: str) -> None:
    with pytest.raises(SparkNotStarted, match=message), spark_session(master, "nobody"):
        pass


def test_should_leave_spark_to_spark_submit_where_that_has_started_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    with (
        pytest.raises(SparkNotStarted, match=r"use its session, SparkSession\.builder\.getOrCreate\(\)"),
        spark_session("local[1]", "inside"),
    ):
        pass


@pytest.mark.spark
@pytest.mark.long
def test_should_take_settings_in_the_order_of_spark_submit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "spark-defaults.conf").write_text("spark.master nonsense\nspark.test.only.in.defaults yes\n")
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", "--conf spark.test.a=environment --conf spark.test.b=environment")
    file = tmp_path / "mine.conf"
    file.write_text(
        "spark.master local[1]\nspark.test.a file\nspark.test.b file\nspark.test.c file\nspark.app.name mine\n"
    )
    log, path_before = tmp_path / "driver.log", list(sys.path)
    options = SparkOptions(None, {"spark.test.a": "line"}, file, "info", log)
    defaults = dict.fromkeys(["spark.test.a", "spark.test.c", "spark.test.d"], "ours")
    with spark_session(None, "ours", options=options, defaults=lambda conf: defaults) as spark:
        conf = dict(spark.sparkContext.getConf().getAll())
        assert [conf.get(f"spark.test.{key}") for key in "abcd"] == ["line", "environment", "file", "ours"]
        assert (conf["spark.master"], conf["spark.app.name"]) == ("local[1]", "mine")
        assert "spark.test.only.in.defaults" not in conf, "a file of one's own replaces it"
        assert str(spark.sparkContext.uiWebUrl).startswith("http://127.0.0.1:")
        assert sys.path != path_before, "PySpark puts its archives there"
    assert sys.path == path_before
    assert " INFO " in log.read_text()


@pytest.mark.spark
@pytest.mark.long
def test_should_say_in_one_line_what_cannot_be(tmp_path: Path) -> None:
    def refused(_conf: object) -> dict[str, str]:
        raise InputError("not on this Spark", "spark.test")

    with (
        pytest.raises(InputError, match=r"^spark\.test: not on this Spark$"),
        spark_session("local[1]", "refused", defaults=refused),
    ):
        pass
    with pytest.raises(SparkNotStarted) as raised, spark_session("local[x]", "malformed"):
        pass
    text = str(raised.value)
    log = Path(text.partition("(its log: ")[2].rstrip(")"))
    log.unlink()
    assert text.startswith("Spark did not start: Could not parse Master URL: 'local[x]' (its log: ")
    assert "\n" not in text


@pytest.mark.spark
@pytest.mark.long
def test_should_say_in_one_line_that_the_master_has_ended_the_application(monkeypatch: pytest.MonkeyPatch) -> None:
    def ended(context: SparkContext) -> None:
        inside = context._jsc.sc()
        inside.stop()
        inside.defaultParallelism()  # as the constructor of a session asks the JVM

    monkeypatch.setattr("spark_engine.session.spark_session.SparkSession", ended)
    with pytest.raises(SparkNotStarted, match=r"^Spark did not start: .*stopped"), spark_session("local[1]", "ended"):
        pass
    assert SparkContext._active_spark_context is None, "another session may be started"


def test_should_end_a_jvm_that_was_just_being_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The signal arrives when there is a process that its caller does not know yet. `spark-submit` is a shell script
    that never ends.
    """
    submit = tmp_path / "bin" / "spark-submit"
    submit.parent.mkdir()
    submit.write_text("#!/bin/sh\nexec sleep 600\n")
    submit.chmod(0o755)
    started: list[subprocess.Popen[bytes]] = []
    start = subprocess.Popen

    def interrupted_start(*arguments: Any, **options: Any) -> subprocess.Popen[bytes]:
        started.append(start(*arguments, **options))
        signal.raise_signal(signal.SIGTERM)
        return started[0]

    monkeypatch.setattr(subprocess, "Popen", interrupted_start)
    with (
        (tmp_path / "log").open("wb") as log,
        pytest.raises(KeyboardInterrupt),
        interruptible(),
        driver_jvm(tmp_path, [], log),
    ):
        pytest.fail("it was interrupted")
    try:
        assert started[0].poll() == -signal.SIGKILL
    finally:
        started[0].kill()
        started[0].wait()
