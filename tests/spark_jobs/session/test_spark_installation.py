"""Which Spark, Python and settings are taken: the user's if there are any."""

import sys
from pathlib import Path

import pyspark
import pytest

from assignor.errors import InputError
from spark_engine.session.spark_installation import spark_environment


@pytest.fixture(autouse=True)
def no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SPARK_HOME", "SPARK_CONF_DIR", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "SPARK_SUBMIT_OPTS"):
        monkeypatch.delenv(name, raising=False)


def installation(directory: Path, version: str) -> Path:
    for file in ("bin/spark-submit", f"jars/spark-core_2.13-{version}.jar"):
        (directory / file).parent.mkdir(parents=True)
        (directory / file).write_text("")
    return directory


def test_should_take_the_installed_one_and_write_nothing_into_it(tmp_path: Path) -> None:
    environment = spark_environment(tmp_path, "INFO")
    home = Path(environment["SPARK_HOME"])
    assert home.parent == tmp_path
    assert (home / "jars").resolve() == Path(str(pyspark.__file__)).parent / "jars"
    assert "INFO".lower() in (Path(environment["SPARK_CONF_DIR"]) / "log4j2.properties").read_text()
    assert environment["PYSPARK_PYTHON"] == sys.executable


def test_should_take_what_the_user_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = installation(tmp_path / "spark", pyspark.__version__)
    monkeypatch.setenv("SPARK_HOME", str(home))
    monkeypatch.setenv("PYSPARK_PYTHON", "/opt/python")
    environment = spark_environment(tmp_path)
    assert environment["SPARK_HOME"] == str(home)
    assert "SPARK_CONF_DIR" not in environment, "Spark looks below its home"
    assert environment["PYSPARK_PYTHON"] == "/opt/python"
    assert "-Dlog4j2.configurationFile=" in environment["SPARK_SUBMIT_OPTS"], "it says nothing of logging"
    (tmp_path / "log4j2.xml").write_text("")
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    assert spark_environment(tmp_path).keys().isdisjoint({"SPARK_CONF_DIR", "SPARK_SUBMIT_OPTS"}), "both are there"


def test_should_refuse_a_spark_of_another_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_HOME", str(installation(tmp_path / "spark", "3.5.1")))
    with pytest.raises(InputError, match=rf"is Spark 3\.5\.1, and the installed pyspark is {pyspark.__version__}"):
        spark_environment(tmp_path)


@pytest.mark.parametrize(
    "name,message", [("SPARK_HOME", "has no bin/spark-submit"), ("SPARK_CONF_DIR", "there is no directory")]
)
def test_should_name_what_is_not_there(
    name: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, str(tmp_path / "nowhere"))
    with pytest.raises(InputError, match=f"{name}: .*{message}"):
        spark_environment(tmp_path)
