"""Spark's settings for a session that runs instances: what is set where nobody has, and what does not go with them.

An instance is a Spark task that does not end. So it must not be started twice (speculation) nor be taken for stuck
(idle timeouts), and losing it any number of times must not end the job. It has an executor of its own, because a
standby is worth something only if it does not die with its active task.
"""

from __future__ import annotations

from collections.abc import Iterator

from pyspark import SparkConf, SparkContext

from assignor.errors import InputError
from spark_engine.session.spark_options import LOCAL_MASTER

EXECUTOR_CONF = {"spark.executor.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"}
"""An executor's JVM does nothing but start Python and wait for it. Compiling no more than it needs, the one that Spark
starts for a dead one takes half the CPU from the instances that take over.
"""
_CORES, _TASK_CPUS = "spark.executor.cores", "spark.task.cpus"
_MAX_FAILURES = "spark.task.maxFailures"
_FEW_FAILURES = 100
_SPECULATION = "spark.speculation"
_DOUBTS = {
    "spark.dynamicAllocation.enabled": (
        "Spark may put several instances on one executor, and takes away the spare ones on which a lost instance could "
        "start at once; set it to false"
    ),
    "spark.decommission.enabled": (
        "an executor that has to go waits for its instance, which runs on until both are killed; without it the "
        "instance leaves in good order"
    ),
}
_IDLE_KILL, _IDLE_TIMEOUT = "spark.python.worker.killOnIdleTimeout", "spark.python.worker.idleTimeoutSeconds"


def with_defaults(conf: SparkConf | None = None, *, instances: int = 1) -> SparkConf:
    """`conf`, completed for `instances` instances; what it has stays.

    For a driver that builds its session itself. None: what Spark's own configuration says, and under spark-submit all
    that it was given. Raises InputError for settings under which instances cannot run.
    """
    if conf is None:
        SparkContext._ensure_initialized()  # without its JVM, PySpark knows no settings but those of this program
        conf = SparkConf()
    for key, value in {**checked_defaults(conf, instances), _MAX_FAILURES: "1000000"}.items():
        conf.setIfMissing(key, value)
    return conf


def checked_defaults(conf: SparkConf, instances: int) -> dict[str, str]:
    """One executor for each instance, and as many executors as instances. An executor has one core unless `conf` says
    more, and its instance gets all of them. Raises InputError as `with_defaults`.
    """
    refuse_unusable(conf)
    if str(conf.get("spark.master", LOCAL_MASTER)).startswith("local"):
        return dict(EXECUTOR_CONF)
    cores = str(conf.get(_CORES, None) or conf.get(_TASK_CPUS, None) or "1")
    defaults = {_CORES: cores, _TASK_CPUS: cores, "spark.executor.instances": str(instances)}
    if cores.isdigit():
        defaults["spark.cores.max"] = str(instances * int(cores))
    return {**EXECUTOR_CONF, **defaults}


def refuse_unusable(conf: SparkConf) -> None:
    """Raises InputError, which names the setting, why instances cannot run under it, and what to do."""
    if _is_on(conf, _SPECULATION):
        raise InputError(
            "Spark would start a healthy instance a second time, and each of the two would end the other; "
            "set it to false",
            _SPECULATION,
        )
    if _is_on(conf, _IDLE_KILL) and str(conf.get(_IDLE_TIMEOUT, "0")) not in ("0", "0s"):
        raise InputError(
            f"Spark would kill healthy instances, which answer only when they end; set {_IDLE_TIMEOUT}=0", _IDLE_KILL
        )


def warnings_about(conf: SparkConf) -> Iterator[str]:
    """What makes instances less useful, one line for each setting; results stay exact."""
    for key, doubt in _DOUBTS.items():
        if _is_on(conf, key):
            yield f"{key}=true: {doubt}"
    if any(_is_on(conf, f"spark.excludeOnFailure.{scope}enabled") for scope in ("", "application.", "taskAndStage.")):
        yield (
            "spark.excludeOnFailure: a machine on which executors died gets no instance for a while "
            "(spark.excludeOnFailure.timeout); set it to false"
        )
    if str(conf.get("spark.master", LOCAL_MASTER)).startswith("local"):
        return
    failures = str(conf.get(_MAX_FAILURES, "4"))
    if failures.isdigit() and int(failures) < _FEW_FAILURES:
        yield f"{_MAX_FAILURES}={failures}: the job ends when an instance was lost {failures} times; set it to 1000000"
    cores, needed = str(conf.get(_CORES, "1")), str(conf.get(_TASK_CPUS, "1"))
    if cores.isdigit() and needed.isdigit() and int(cores) >= 2 * int(needed) > 0:
        yield (
            f"{_CORES}={cores} and {_TASK_CPUS}={needed}: {int(cores) // int(needed)} instances may share an executor "
            f"and die with it; set {_TASK_CPUS}={cores}"
        )


def _is_on(conf: SparkConf, key: str) -> bool:
    return str(conf.get(key, "false")).strip().lower() == "true"
