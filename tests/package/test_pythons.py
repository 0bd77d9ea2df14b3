"""The wheel on every Python that it declares, in an environment of its own with all extras.

Not on the Python that runs the tests: all others run on that one, and test_first_hour installs the wheel.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from coordinator_api.store.schema import VERSION
from tests.checkout import RECORDINGS
from tests.package.distributions import build
from tests.package.environments import TRIED, FreshEnvironment, fresh_environment, interpreter, running_python

PACKAGES = (
    "assignor|assignor_cli|coordinator_api|coordinator_client|kafka_client|kafka_groups|operating_system"
    "|rebalance_analysis|spark_engine|spark_jobs|streams_runtime"
)

IMPORT_ALL = f"""
import importlib, pkgutil, warnings
warnings.filterwarnings("error", module=r"(.*/)?({PACKAGES})\\b")  # of a file that is compiled, the path is the module
count = 0
for package in map(importlib.import_module, "{PACKAGES}".split("|")):
    for found in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        if not found.name.startswith("coordinator_api.migrations."):  # Alembic runs them, in its own way
            importlib.import_module(found.name)
            count += 1
print(count)
"""

COUNT_WORDS = """
from streams_runtime import LONG, STRING, StreamsBuilder, TopologyTestDriver

builder = StreamsBuilder()
lines = builder.stream("lines", STRING, STRING)
words = lines.flat_map_values(str.split).group_by(lambda _key, word: word, key_serde=STRING, value_serde=STRING)
words.count(store="counts").to_stream().to("word-counts", key_serde=STRING, value_serde=LONG)
with TopologyTestDriver(builder.build(), {"application.id": "words"}) as driver:
    driver.create_input_topic("lines", STRING, STRING).pipe_input("1", "a cat and a dog")
    print(driver.create_output_topic("word-counts", STRING, LONG).read_key_values_to_map())
"""

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("distributions"))[0]


@pytest.fixture(scope="module", params=[each for each in TRIED if each != running_python()])
def environment(
    request: pytest.FixtureRequest, wheel: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[FreshEnvironment]:
    python = interpreter(request.param)
    if python is None:
        pytest.skip(f"no Python {request.param} on this machine")
    made = fresh_environment(tmp_path_factory.mktemp("python"), python, f"assignor[all] @ {wheel.as_uri()}")
    yield made
    made.remove()


def test_should_import_every_file_without_a_warning(environment: FreshEnvironment) -> None:
    """Such as a DeprecationWarning or a SyntaxWarning of a Python that is newer than the code."""
    ended = environment.run("python", "-c", IMPORT_ALL)

    assert (ended.returncode, ended.stderr) == (0, "")
    assert int(ended.stdout) > 500


def test_should_run_recorded_rebalances_again(environment: FreshEnvironment) -> None:
    ended = environment.run("assignor", "assign", "--check", str(RECORDINGS / "smoke.jsonl.gz"))

    assert ended.returncode == 0, ended.stderr


def test_should_find_the_migrations(environment: FreshEnvironment) -> None:
    ended = [environment.run("assignor", "migrate") for _ in range(2)]

    assert [each.stdout for each in ended] == [
        f"schema {VERSION}: upgraded from nothing\n",
        f"schema {VERSION}: nothing to do\n",
    ]


def test_should_count_words(environment: FreshEnvironment) -> None:
    ended = environment.run("python", "-c", COUNT_WORDS)

    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout == "{'a': 2, 'cat': 1, 'and': 1, 'dog': 1}\n"
