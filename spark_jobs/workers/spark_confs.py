"""Makes the settings of a Spark session that runs instances: sets defaults, and checks the user's settings.

An instance is a Spark task that does not end. So two features of Spark must be off. Speculation starts a slow Spark
task twice. Idle timeouts end a Spark task that seems stuck. The job has to continue even if the Spark task is lost
several times. Each instance has its own executor, so a standby copy does not die together with the active copy.
"""

from collections.abc import Iterator

from pyspark import SparkConf, SparkContext

from assignor.errors import InputError
from spark_engine.session.spark_options import LOCAL_MASTER

EXECUTOR_CONF = {"spark.executor.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"}
"""The JVM options of executors. The JVM of an executor only starts Python and waits for it, so it needs little compiled
code. After the death of an executor, Spark starts a new JVM. These options halve the CPU time that the new JVM needs.
So the instances that get the dead executor's tasks have more CPU time.
"""
_CORES, _TASK_CPUS = "spark.executor.cores", "spark.task.cpus"
_MAX_FAILURES = "spark.task.maxFailures"
_FEW_FAILURES = 100
_SPECULATION = "spark.speculation"
_WARNINGS = {
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
    """Adds default values to the settings `conf`, and returns these settings. Values that the settings already have are
    not changed. Call this function in a driver that builds the Spark session itself. `conf`: the settings; None for
    Spark's own configuration, which includes the arguments of spark-submit. `instances`: the number of instances.
    Raises InputError if instances cannot run with these settings.
    """
    if conf is None:
        # start the JVM, which reads Spark's configuration and the options of spark-submit
        SparkContext._ensure_initialized()
        conf = SparkConf()
    for key, value in {**checked_defaults(conf, instances), _MAX_FAILURES: "1000000"}.items():
        conf.setIfMissing(key, value)
    return conf


def checked_defaults(conf: SparkConf, instances: int) -> dict[str, str]:
    """Checks the settings `conf`. Returns default values for keys without a value. If the master is not `local`, the
    defaults request one executor for each instance. `spark.executor.cores` or `spark.task.cpus` sets an executor's
    number of cores; the default is one core. `spark.task.cpus` sets an instance's number of cores; the default is all
    cores of its executor. Raises InputError if instances cannot run with these settings.
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
    """Raises InputError if instances cannot run with a setting. The message has the reason and the remedy."""
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
    """Yields a line for each setting that makes instances less available. The results of the application are still
    correct with such a setting.
    """
    for key, warning in _WARNINGS.items():
        if _is_on(conf, key):
            yield f"{key}=true: {warning}"
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
