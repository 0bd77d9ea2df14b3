"""What is set for instances where nobody has set anything, and what is refused or doubted."""

import pytest
from pyspark import SparkConf

from assignor.errors import InputError
from spark_jobs.workers.spark_confs import checked_defaults, warnings_about, with_defaults

CLUSTER = {"spark.master": "spark://a:7077"}


def conf(**more: str) -> SparkConf:
    """Dotted names with underscores for dots."""
    made = SparkConf(loadDefaults=False)
    for key, value in {**CLUSTER, **{name.replace("_", "."): value for name, value in more.items()}}.items():
        made.set(key, value)
    return made


def test_should_give_each_instance_an_executor_of_its_own() -> None:
    defaults = checked_defaults(conf(), 3)
    assert {name: defaults[name] for name in defaults if "Options" not in name} == {
        "spark.executor.cores": "1",
        "spark.task.cpus": "1",
        "spark.executor.instances": "3",
        "spark.cores.max": "3",
    }


def test_should_follow_the_size_that_the_user_gives_an_executor() -> None:
    completed = dict(with_defaults(conf(spark_executor_cores="4", spark_executor_memory="2g"), instances=2).getAll())
    assert completed["spark.executor.cores"] == completed["spark.task.cpus"] == "4"
    assert completed["spark.cores.max"] == "8"
    assert completed["spark.executor.memory"] == "2g"
    assert list(warnings_about(with_defaults(conf(spark_executor_cores="4"), instances=2))) == []


def test_should_keep_all_that_the_user_says() -> None:
    given = {"spark_task_maxFailures": "8", "spark_cores_max": "1", "spark_executor_extraJavaOptions": "-Xss1m"}
    completed = dict(with_defaults(conf(**given), instances=2).getAll())
    assert completed["spark.task.maxFailures"] == "8"
    assert completed["spark.cores.max"] == "1"
    assert completed["spark.executor.extraJavaOptions"] == "-Xss1m"


def test_should_size_no_executor_where_the_driver_is_the_executor() -> None:
    assert list(checked_defaults(conf(spark_master="local[2]"), 3)) == ["spark.executor.extraJavaOptions"]


@pytest.mark.parametrize(
    "given,message",
    [
        ({"spark_speculation": "true"}, r"spark\.speculation: Spark would start a healthy instance a second time"),
        (
            {"spark_python_worker_killOnIdleTimeout": "true", "spark_python_worker_idleTimeoutSeconds": "60"},
            r"spark\.python\.worker\.killOnIdleTimeout: Spark would kill healthy instances",
        ),
    ],
)
def test_should_refuse_what_instances_cannot_live_with(given: dict[str, str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        checked_defaults(conf(**given), 1)


def test_should_take_an_idle_timeout_that_kills_nobody() -> None:
    checked_defaults(conf(spark_python_worker_killOnIdleTimeout="true"), 1)
    checked_defaults(conf(spark_python_worker_idleTimeoutSeconds="60"), 1)


@pytest.mark.parametrize(
    "given,doubt",
    [
        ({"spark_dynamicAllocation_enabled": "true"}, "spark.dynamicAllocation.enabled=true: "),
        ({"spark_decommission_enabled": "true"}, "spark.decommission.enabled=true: "),
        ({"spark_excludeOnFailure_enabled": "true"}, "spark.excludeOnFailure: "),
        ({"spark_task_maxFailures": "4"}, "spark.task.maxFailures=4: the job ends when an instance was lost 4 times"),
        ({"spark_executor_cores": "4", "spark_task_cpus": "2"}, "spark.executor.cores=4 and spark.task.cpus=2: 2 inst"),
    ],
)
def test_should_doubt_what_makes_instances_less_useful(given: dict[str, str], doubt: str) -> None:
    (line,) = warnings_about(with_defaults(conf(**given), instances=2))
    assert line.startswith(doubt)


def test_should_tell_a_driver_that_completes_nothing_what_its_settings_mean() -> None:
    (line,) = warnings_about(conf())
    assert line.startswith("spark.task.maxFailures=4: ")
