"""In which order tests run, and which of them go to one process when several share the work.

Fast and pure comes first, so that what a change breaks shows within seconds. What starts Spark, or waits until killed
processes are missed, comes last, the longest first, so that no process is left alone with it in the end.
"""

from pytest import Config  # noqa: PT013 - a class to annotate with, in a file that is no test
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

_ON_ONE_SPARK_SESSION = (
    "tests/spark_jobs/batch/test_engines.py",
    "tests/spark_jobs/replay/test_dataframe.py",
    "tests/spark_jobs/sweep/test_command.py",
    "tests/spark_jobs/workers/test_running.py",
)
_PHASES: tuple[tuple[str, ...], ...] = (
    (
        "tests/assignor/",
        "tests/assignor_cli/",
        "tests/coordinator_client/",
        "tests/operating_system/",
        "tests/rebalance_analysis/",
        "tests/properties/",
        "tests/simulation/",
        "tests/coordinator_api/group/",
        "tests/test_",
    ),
    ("tests/",),  # all that no other phase names
    ("tests/spark_jobs/session/test_spark_session.py",),
    _ON_ONE_SPARK_SESSION,
    ("tests/history/test_real_traffic.py",),
    (
        "tests/acceptance/test_replay.py",
        "tests/acceptance/test_demo.py",
        "tests/acceptance/test_first_hour.py",
        "tests/acceptance/test_spark_cluster.py",
        "tests/browser/test_spark_group.py",
    ),
    ("tests/acceptance/test_many_members.py", "tests/coordinator_api/test_liveness_under_load.py"),
    ("tests/acceptance/", "tests/benchmarks/"),
    ("tests/coordinator_api/test_durability.py", "tests/streams_runtime/queries/test_queries_end_to_end.py"),
    ("tests/spark_jobs/batch/", "tests/spark_jobs/session/", "tests/spark_jobs/workers/"),
    ("tests/streams_runtime/test_", "tests/streams_runtime/rules/", "tests/streams_runtime/logs/embedded/"),
)


def phase(nodeid: str) -> int:
    """Lower runs earlier. The longest prefix counts."""
    prefixes = [(prefix, number) for number, of_phase in enumerate(_PHASES) for prefix in of_phase]
    return max((len(prefix), number) for prefix, number in prefixes if nodeid.startswith(prefix))[1]


class UnitScheduling(LoadScopeScheduling):
    """Hands out one file at a time, in the order of the run; files that share a Spark session go together."""

    def __init__(self, config: Config, log: Producer) -> None:
        config.option.loadscopereorder = False
        super().__init__(config, log)

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        return "Spark" if file in _ON_ONE_SPARK_SESSION else file
