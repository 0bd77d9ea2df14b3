"""What spark-submit is called with, and which master that means."""

from collections.abc import Callable
from pathlib import Path

import pytest

from assignor.errors import InputError
from spark_engine.session.spark_options import SparkOptions, is_on_loopback, parsed_confs, standalone_addresses


@pytest.fixture(autouse=True)
def no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SPARK_HOME", "SPARK_CONF_DIR", "PYSPARK_SUBMIT_ARGS"):
        monkeypatch.delenv(name, raising=False)


def test_should_put_what_is_stronger_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "my.conf"
    file.write_text("")
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", "--conf 'spark.a=of the environment' pyspark-shell")
    options = SparkOptions("spark://a:7077", {"spark.a": "b=c"}, file, "Info")
    assert options.submit_arguments() == [
        *("--conf", "spark.a=of the environment"),
        *("--conf", "spark.ui.showConsoleProgress=false"),
        *("--properties-file", str(file)),
        *("--conf", "spark.log.level=INFO"),
        *("--conf", "spark.a=b=c"),
        *("--master", "spark://a:7077"),
    ]


def test_should_read_confs_as_spark_submit_does() -> None:
    assert parsed_confs(["spark.a=1", "spark.b=x=y", "spark.a=2", "spark.c="]) == {
        "spark.a": "2",
        "spark.b": "x=y",
        "spark.c": "",
    }


@pytest.mark.parametrize(
    "make,message",
    [
        (lambda: parsed_confs(["spark.ui.enabled"]), "--conf: must be key=value, not 'spark.ui.enabled'"),
        (lambda: parsed_confs(["=x"]), "--conf: must be key=value"),
        (
            lambda: parsed_confs(["executor.cores=2"]),
            "--conf: keys of Spark begin with spark., 'executor.cores'",
        ),
        (lambda: SparkOptions(log_level="loud"), "--log-level: must be one of trace, debug.*not 'loud'"),
        (lambda: SparkOptions(properties_file=Path("/nowhere")), "--properties-file: there is no file /nowhere"),
        (
            lambda: SparkOptions(confs={"spark.submit.deployMode": "cluster"}),
            "spark.submit.deployMode: the driver",
        ),
        (lambda: standalone_addresses("spark://a"), "--master: must be spark://host:port, not 'spark://a'"),
        (lambda: standalone_addresses("spark://a:1,b"), "--master: must be spark://host:port"),
    ],
)
def test_should_name_what_cannot_be(make: Callable[[], object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        make()


def test_should_name_an_open_quote_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", "--conf 'spark.a")
    with pytest.raises(InputError, match="PYSPARK_SUBMIT_ARGS: No closing quotation"):
        SparkOptions().submit_arguments()


def test_should_know_the_master_that_spark_submit_will_choose(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert SparkOptions().known_master() == "local[*]"
    (tmp_path / "spark-defaults.conf").write_text(
        "# spark.master  no\nspark.masters x\n spark.master   spark://defaults:1\n"
    )
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    assert SparkOptions().known_master() == "spark://defaults:1"
    (tmp_path / "mine.conf").write_text("spark.master=spark://mine:2\n")
    mine = tmp_path / "mine.conf"
    assert SparkOptions(properties_file=mine).known_master() == "spark://mine:2"
    assert SparkOptions(confs={"spark.master": "yarn"}, properties_file=mine).known_master() == "yarn"
    assert SparkOptions("local[2]", {"spark.master": "yarn"}, mine).known_master() == "local[2]"


def test_should_know_the_home_of_its_own_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "spark-defaults.conf").write_text("spark.master\tspark://home:1\n")
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    assert SparkOptions().known_master() == "spark://home:1"


@pytest.mark.parametrize(
    "master,expected",
    [
        ("local", True),
        ("local[*]", True),
        ("local-cluster[2,1,1024]", True),
        ("spark://127.0.0.1:7077", True),
        ("spark://localhost:7077", True),
        ("spark://localhost.example:7077", False),
        ("spark://a:7077", False),
        ("yarn", False),
        ("k8s://https://a:6443", False),
    ],
)
def test_should_know_who_stays_on_this_machine(master: str, expected: bool) -> None:
    assert is_on_loopback(master) is expected


def test_should_find_every_master_of_a_standalone_cluster() -> None:
    assert standalone_addresses("spark://a:7077,b:7078") == [("a", 7077), ("b", 7078)]
    assert standalone_addresses("spark://[::1]:7077") == [("::1", 7077)]
    assert standalone_addresses("yarn") == []
