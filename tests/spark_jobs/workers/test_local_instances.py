"""`assignor workers run --local`: plain processes, one of which may be killed at any time, and none is left over."""

import errno
import importlib.util
import json
import os
import re
import signal
import subprocess
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue

import pytest

from assignor_cli.app import program
from assignor_cli.extras import ExtraMissing
from spark_jobs.ownership.group_view import GroupView, group_view, wait_for_group
from spark_jobs.workers.instance_starts import WorkersFailed
from spark_jobs.workers.local_instance import LocalInstance
from spark_jobs.workers.local_instances import LocalInstances
from spark_jobs.workers.member_process import InstanceResult
from streams_runtime.common.states import InstanceState
from streams_runtime.instance.application import group_body
from streams_runtime.local_run.coordinator_process import CoordinatorProcess
from streams_runtime.membership.coordinator_client import CoordinatorClient
from tests import warm_program
from tests.checkout import ROOT
from tests.processes import children, processes_with
from tests.program import PROGRAM
from tests.running_program import WITHIN_S, RunningProgram
from tests.spark_jobs.forks import PIDS_VARIABLE
from tests.spark_jobs.owners import are_owned_once
from tests.spark_jobs.small_application import POISON, STORES, counted, small_application, write_records
from tests.spark_jobs.user_app import GROUP_ID, LOG_VARIABLE
from tests.waiting import wait_until

APP = "tests.spark_jobs.user_app:application"
MODULE = "spark_jobs.workers.local_instance"
NO_MODULE = r"there is no module 'nowhere_at_all' in .* or on the path"


def owned_once_by(*numbers: int) -> Callable[[GroupView], bool]:
    """By one thread of each of these instances, which have all of its tasks between them."""

    def wanted(view: GroupView) -> bool:
        names = {re.sub(r"^.*-(p\d-t\d)$", r"\1", member.client_id) for member in view.members}
        return view.is_settled and names == {f"p{number}-t0" for number in numbers} and are_owned_once(view)

    return wanted


def instances_of(command: RunningProgram) -> set[int]:
    return {pid for pid, line in children(command.pid).items() if MODULE in line}


def running(instances: set[int]) -> set[int]:
    return instances & processes_with(MODULE)


@dataclass
class Place:
    """A coordinator, and a directory for state and output."""

    coordinator: CoordinatorProcess
    directory: Path

    def first(self, app: str = APP) -> LocalInstance:
        url, state = self.coordinator.url, str(self.directory / "state")
        return LocalInstance(app, "here", 0, 0, url, None, state, None, None)

    def command(self, *options: str, python_path: Path = ROOT) -> RunningProgram:
        """`assignor workers run --local`, with the log of LOG_VARIABLE."""
        arguments = ["workers", "run", APP, "--local", "--coordinator", self.coordinator.url]
        return RunningProgram(
            [*PROGRAM, *arguments, "--state-dir", str(self.directory / "state"), *options],
            self.directory / "stderr",
            stdout=self.directory / "stdout",
            environment=os.environ | {"PYTHONPATH": f"{python_path}:{ROOT}"},
        )


@pytest.fixture
def place(coordinator: CoordinatorProcess, tmp_path: Path) -> Place:
    return Place(coordinator, tmp_path)


@pytest.fixture
def own_log(client: CoordinatorClient, log_directory: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The application of the command line uses it. Its group is declared."""
    monkeypatch.setenv(LOG_VARIABLE, str(log_directory))
    client.declare(GROUP_ID, group_body(small_application(GROUP_ID, log_directory)))
    return log_directory


@pytest.fixture
def without_pyspark(tmp_path: Path) -> Path:
    """For PYTHONPATH."""
    package = tmp_path / "without" / "pyspark"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise ImportError('nobody may import PySpark')\n")
    return package.parent


@pytest.mark.long
def test_should_start_a_killed_instance_again_and_end_all_of_them_in_good_order_at_ctrl_c(
    place: Place, client: CoordinatorClient, own_log: Path, tmp_path: Path, without_pyspark: Path
) -> None:
    write_records(own_log, 2)
    options = ["--instances", "3", "--format", "json"]
    with place.command(*options, python_path=without_pyspark) as process:
        wait_for_group(client, GROUP_ID, owned_once_by(0, 1, 2), "three instances", WITHIN_S)
        before = {member.member_id for member in group_view(client, GROUP_ID).members}
        killed = min(instances_of(process))

        os.kill(killed, signal.SIGKILL)

        process.wait_for(rf"^instance \d was lost with process {killed}: it was ended by SIGKILL; it is started again$")
        wait_for_group(
            client,
            GROUP_ID,
            lambda view: owned_once_by(0, 1, 2)(view) and not before.issuperset(one.member_id for one in view.members),
            "the one that was started again",
            WITHIN_S,
        )
        write_records(own_log, 1)
        every_count = dict.fromkeys(STORES, 24)
        wait_for_group(client, GROUP_ID, lambda _: counted(own_log, GROUP_ID) == every_count, "counts", WITHIN_S)
        instances = instances_of(process)
        assert process.interrupt() == 0
        ends = [json.loads(line) for line in process.printed.splitlines()]
    assert [(end["partition"], end["state"], end["errors"]) for end in ends] == [
        (number, "not-running", []) for number in range(3)
    ]
    assert group_view(client, GROUP_ID).members == ()
    assert counted(own_log, GROUP_ID) == every_count
    assert running(instances) == set()
    assert sorted(each.name for each in (tmp_path / "state").iterdir()) == [f"instance-{number}" for number in range(3)]


@pytest.mark.long
def test_should_leave_no_instance_behind_when_it_is_killed(
    place: Place, client: CoordinatorClient, own_log: Path
) -> None:
    with place.command("--instances", "2") as process:
        wait_for_group(client, GROUP_ID, owned_once_by(0, 1), "two instances", WITHIN_S)
        instances = instances_of(process)
        process.kill()
        wait_for_group(client, GROUP_ID, lambda view: view.members == (), "no member", WITHIN_S)
        wait_until(lambda: running(instances) == set(), "the end of the instances")
    assert len(instances) == 2


@pytest.mark.long
def test_should_exit_with_one_and_leave_an_instance_ended_that_ended_with_an_error(
    place: Place, client: CoordinatorClient, own_log: Path
) -> None:
    with place.command() as process:
        wait_for_group(client, GROUP_ID, owned_once_by(0), "an instance", WITHIN_S)
        write_records(own_log, 1, value=POISON)
        assert process.wait() == 1
    assert process.printed.startswith("instance 0: error; ")
    assert "a poisoned record" in process.printed
    assert "started again" not in process.log
    assert re.search(r"^instance-0: .*a poisoned record", process.log, re.MULTILINE), "its log lines have its name"


@pytest.mark.long
def test_should_not_take_an_instance_that_has_ended_for_one_that_waits_to_run(
    place: Place, client: CoordinatorClient, own_log: Path
) -> None:
    (place.directory / "state").mkdir()
    (place.directory / "state" / "instance-0").touch()  # no directory: this instance ends with an error
    with LocalInstances(place.first(), 2, print) as instances:
        wait_for_group(client, GROUP_ID, owned_once_by(1), "the other instance", WITHIN_S)
        wait_until(lambda: len([line for line in children(os.getpid()).values() if MODULE in line]) <= 1, "an end")
        assert instances.wait(1.0) is None
        assert instances.running == 2
        ends = instances.stop()
    assert [end.state for end in ends] == [InstanceState.ERROR, InstanceState.NOT_RUNNING]


def test_should_give_up_an_instance_that_fails_at_each_start(place: Place) -> None:
    lines: list[str] = []
    with (
        pytest.raises(
            WorkersFailed, match=rf"^instance 0 failed in process \d+: .*{NO_MODULE}; it failed at each of the"
        ),
        LocalInstances(place.first("nowhere_at_all:app"), 1, lines.append) as instances,
    ):
        instances.wait(WITHIN_S / 2)
    assert len([line for line in lines if line.endswith("; it is started again")]) == 3
    assert len([line for line in lines if re.match(f"instance-0: error: .*{NO_MODULE}", line)]) == 4


def first_failure(first: LocalInstance) -> str:
    """What is reported when the instance has failed once."""
    lines: list[str] = []
    with LocalInstances(first, 1, lines.append) as instances:
        wait_until(lambda: instances.wait(0.02) is None and lines and lines[-1].endswith("; it is started again"), "it")
    return next(line for line in lines if line.endswith("; it is started again"))


def test_should_take_a_crash_for_a_failure(place: Place) -> None:
    failure = first_failure(place.first("tests.spark_jobs.crashes:app"))
    assert re.match(r"instance 0 failed in process \d+: it was ended by SIGSEGV; ", failure)


def test_should_start_where_a_module_has_the_name_of_one_of_pythons(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "calendar.py").write_text("raise RuntimeError('this is no module of the standard library')")
    (tmp_path / "waiting.py").write_text((ROOT / "tests/spark_jobs/slow_to_import.py").read_text())
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    lines: SimpleQueue[str] = SimpleQueue()
    with LocalInstances(place.first("waiting:app"), 1, lines.put) as instances:
        assert lines.get(timeout=WITHIN_S) == "instance-0: importing for ever"
        instances.stop()


def test_should_start_an_instance_again_that_a_signal_without_a_name_ended(place: Place) -> None:
    lines: SimpleQueue[str] = SimpleQueue()
    without_a_name = int(signal.SIGRTMIN) + 1
    app = "tests.spark_jobs.slow_to_import:app"
    with LocalInstances(place.first(app), 1, lines.put) as instances:
        assert lines.get(timeout=WITHIN_S) == "instance-0: importing for ever"
        (process,) = (pid for pid, line in children(os.getpid()).items() if MODULE in line)
        os.kill(process, without_a_name)
        assert instances.wait(2.0) is None
        expected = f"instance 0 was lost with process {process}: it was ended by signal {without_a_name}"
        assert lines.get(timeout=WITHIN_S) == f"{expected}; it is started again"
        instances.stop()


def test_should_say_which_instance_this_machine_cannot_start(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_arguments: object, **_options: object) -> None:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr(subprocess, "Popen", refuse)
    with (
        pytest.raises(WorkersFailed, match=r"^instance 0 cannot be started: .*Too many open files"),
        LocalInstances(place.first(), 2, print),
    ):
        pass


def test_should_show_in_parts_what_an_instance_writes_without_an_end_of_line(place: Place) -> None:
    parts: SimpleQueue[str] = SimpleQueue()
    app = "tests.spark_jobs.never_ends_a_line:app"
    with LocalInstances(place.first(app), 1, parts.put) as instances:
        shown = [parts.get(timeout=WITHIN_S) for _ in range(3)]
        instances.stop()
    assert {len(part) for part in shown} == {len("instance-0: ") + 64 * 1024}


def test_should_notice_the_end_of_an_instance_whose_child_process_lives_on(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    pids = tmp_path / "pids"
    monkeypatch.setenv(PIDS_VARIABLE, str(pids))

    def end_forked() -> None:
        for pid in pids.read_text().split():
            os.kill(int(pid), signal.SIGKILL)

    request.addfinalizer(end_forked)
    assert "the parent fails" in first_failure(place.first("tests.spark_jobs.forks:app"))


def test_should_stop_an_instance_that_has_not_joined_yet(place: Place) -> None:
    lines: list[str] = []
    started = threading.Event()

    def report(line: str) -> None:
        lines.append(line)
        started.set()

    app = "tests.spark_jobs.slow_to_import:app"
    with LocalInstances(place.first(app), 1, report) as instances:
        assert started.wait(WITHIN_S)
        assert instances.stop() == [InstanceResult(0, InstanceState.NOT_RUNNING)]
    assert lines == ["instance-0: importing for ever"]


@pytest.mark.parametrize(
    "options,message",
    [
        (["--master", "local[*]"], "--local: there is no Spark"),
        (["--conf", "spark.ui.enabled=false"], "--local: there is no Spark"),
    ],
)
def test_should_exit_with_two_when_the_command_line_cannot_be_used(
    options: list[str], message: str, own_log: Path
) -> None:
    ran = warm_program.run(["workers", "run", APP, "--local", *options], cwd=ROOT, environment=dict(os.environ))
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr.splitlines()[-1].startswith(f"error: {message}")
    assert "Traceback" not in ran.stderr


def test_should_refuse_two_instances_that_would_answer_at_one_address(own_log: Path) -> None:
    app = "tests.spark_jobs.user_app:with_fixed_endpoint"
    ran = warm_program.run(
        ["workers", "run", app, "--local", "--instances", "2"], cwd=ROOT, environment=dict(os.environ)
    )
    assert ran.returncode == 2
    assert ran.stderr.startswith("error: application.server: 2 instances cannot all answer at 127.0.0.1:7070")


def test_should_name_local_instances_where_there_is_no_spark(
    own_log: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    program.cache_clear()
    request.addfinalizer(program.cache_clear)
    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *more: None if name == "pyspark" else found(name, *more)
    )
    with pytest.raises(ExtraMissing, match=r"pip install 'assignor\[spark\]'; without Spark, --local runs processes"):
        program()(["workers", "run", APP], standalone_mode=False)
