"""Runs one instance of an application in the present process. The present process is the Python worker of an executor,
or a plain process.

Rules:
- Stream threads are static members `<application>-p<partition>-t<thread>`, so their ids stay the same after a restart.
  Without Spark, the incarnation of a member is the number of the attempt to run its instance. On Spark, the incarnation
  is the id of the task attempt. So a new attempt fences an older attempt. Host and executor are client tags of the
  members. Without Spark, each host numbers its own instances from 0. So the host's name is part of the member ids.
- State is kept in `<state.dir>/instance-<partition>`, where a restart on the same host finds it. If an earlier process
  has locked this state directory, the instance waits. A relative `state.dir` is below the machine's directory for
  temporary files, as in Kafka's default. State is not below the working directory. Each executor has a different
  working directory and would not find the state again.
- When the executor's JVM dies, pyspark's daemon sends SIGHUP to the instance. After SIGHUP, the instance commits,
  writes checkpoints, leaves the group and ends its process. So the instance's tasks move to the standbys long before
  the session expires. An instance that is still waiting for its state directory has no tasks, so it ends its process
  immediately after a signal.
- `leaving_signals` receives each signal, even if the system delivers the signal to another thread.
- An instance that ends with an error is not started again. The `InstanceResult` of the instance has the error. If the
  coordinator stops an instance, this does not count as an error.
"""

import logging
import os
import tempfile
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from coordinator_client.calls import CallerToken
from spark_jobs.ownership.executor_identity import LOOPBACK, ExecutorIdentity
from spark_jobs.ownership.ownership_log import OwnershipListener
from spark_jobs.workers.leaving_signals import LeavingSignals
from streams_runtime.common.errors import LockError
from streams_runtime.common.states import InstanceState
from streams_runtime.configs import HOST_TAG
from streams_runtime.instance.application import Application
from streams_runtime.instance.instance_resources import InstanceOptions, host_tag
from streams_runtime.instance.streams_instance import StreamsInstance
from streams_runtime.instance.thread_listener import ThreadListener

EXECUTOR_TAG = "executor"
LOCK_WAIT_MS = 30_000
DRAIN_TIMEOUT_S = 30.0

_LOGGER = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class InstanceSettings:
    """The settings of an instance. Spark sends the settings to an executor with the Spark task.

    `coordinator_url`: the URL of the coordinator, or several URLs separated by commas. `state_dir`, `threads`: values
    that replace the application's configs state.dir and num.stream.threads; None to keep the application's value.
    `log_dir`: the directory of ownership logs; None to write no ownership logs. `state_dir` and `log_dir` are paths on
    the machine of the instance. `host`: the name of the host if each host numbers its own instances. `host` is None if
    the number of an instance is unique in the group.
    """

    application: Application
    coordinator_url: str
    threads: int | None = None
    state_dir: str | None = None
    log_dir: str | None = None
    token: str | None = field(default=None, repr=False)
    token_file: str | None = None
    host: str | None = None

    @property
    def members(self) -> str:
        """The first part of every member's client id, which has the form `<members>-p<partition>-t<thread>`."""
        group_id = self.application.id
        return group_id if self.host is None else f"{group_id}-{self.host}"

    def caller_token(self) -> CallerToken | None:
        """Returns the bearer token; None if the settings have no token. If the file `token_file` exists on this
        machine, the token is read from this file. If the token file changes, it is read again. Without this file, the
        token is the value of `token`.
        """
        if self.token is None:
            return None
        return CallerToken(self.token, None if self.token_file is None else Path(self.token_file))


@dataclass(frozen=True, slots=True)
class InstanceResult:
    """The state and the errors of an instance that has ended. `errors`: the errors that ended the instance's threads;
    empty after a clean end.

    `notices`: the notices that the instance made since its start, for example about dropped records.
    """

    partition: int
    state: InstanceState
    errors: tuple[str, ...] = ()
    notices: tuple[str, ...] = field(default=(), compare=False)  # `==` does not compare this field

    @property
    def is_good(self) -> bool:
        return self.state is not InstanceState.ERROR

    def __str__(self) -> str:
        end = f"instance {self.partition}: {'; '.join((str(self.state), *self.errors))}"
        return "\n".join((end, *(f"  {notice}" for notice in self.notices)))


def end_process(exit_code: int = 0) -> None:
    """Ends the process without clean-up and without a report. `exit_code`: the exit code that `local_instances` reads.
    Spark ignores the exit code.
    """
    os._exit(exit_code)


def run_instance(
    settings: InstanceSettings,
    partition: int,
    incarnation: int,
    executor: ExecutorIdentity,
    on_leaving: Callable[[], None] = end_process,
) -> InstanceResult:
    """Runs an instance until it ends. After SIGHUP or SIGTERM, drains the instance and then calls `on_leaving`. On
    Spark, `on_leaving` ends this process. Raises LockError if another process has locked the state directory; the
    caller then starts the instance again.
    """
    try:
        return _run(settings, partition, incarnation, executor, on_leaving)
    except LockError:
        raise
    # Return the error instead of raising it. A raised error would cause new starts of the instance, which would fail
    # with the same error.
    except Exception as fault:
        return InstanceResult(partition, InstanceState.ERROR, (_text(fault),))


def _run(
    settings: InstanceSettings,
    partition: int,
    incarnation: int,
    executor: ExecutorIdentity,
    on_leaving: Callable[[], None],
) -> InstanceResult:
    application = _of_instance(settings, partition)
    configs = application.configs
    # without a token, the endpoint of the instance listens on loopback, so only this machine can call it
    own_host = LOOPBACK if settings.token is None else executor.host
    instance = StreamsInstance(
        application,
        settings.coordinator_url,
        InstanceOptions(
            thread_name=lambda thread: f"{settings.members}-p{partition}-t{thread}",
            thread_listener=_thread_listeners(settings, partition, executor),
            incarnation=incarnation,
            serve_at=configs.application_server or f"{own_host}:0",
            client_tags=_client_tags(executor, configs.client_tags),
            token=settings.caller_token(),
            lock_wait_ms=LOCK_WAIT_MS,
            owns_process=True,
        ),
    )

    def end_if_nothing_is_held() -> None:
        if instance.process_id is None:
            end_process()

    with LeavingSignals(end_if_nothing_is_held) as signals:
        try:
            instance.start()
            _wait(instance, signals, on_leaving)
        finally:
            instance.close()
    errors = tuple(_text(error) for error in instance.errors)
    notices = tuple(f"{one.code} {one.count:,}: {one.text}" for one in instance.notices.newest())
    return InstanceResult(partition, instance.state, errors, notices)


def _of_instance(settings: InstanceSettings, partition: int) -> Application:
    """Returns a copy of the application with this instance's state directory and number of threads."""
    configs = settings.application.configs
    state_dir = _on_this_machine(settings.state_dir or configs.state_dir) / f"instance-{partition}"
    threads = settings.threads or configs.num_stream_threads
    return replace(settings.application, configs=replace(configs, state_dir=state_dir, num_stream_threads=threads))


def _client_tags(executor: ExecutorIdentity, own: Mapping[str, str]) -> dict[str, str]:
    """Returns the client tags for host and executor. Leaves out the tags that the application sets itself (`own`)."""
    tags = {HOST_TAG: host_tag()}
    if executor.executor_id:
        tags[EXECUTOR_TAG] = executor.executor_id
    return {tag: value for tag, value in tags.items() if tag not in own}


def _thread_listeners(
    settings: InstanceSettings, partition: int, executor: ExecutorIdentity
) -> Callable[[str], ThreadListener]:
    if settings.log_dir is None:
        return lambda _name: ThreadListener()
    directory = _on_this_machine(settings.log_dir)
    return lambda name: OwnershipListener(directory, f"p{partition}", name, executor)


def _on_this_machine(directory: str | Path) -> Path:
    return Path(tempfile.gettempdir()) / directory


def _wait(instance: StreamsInstance, signals: LeavingSignals, on_leaving: Callable[[], None]) -> None:
    """Blocks until the instance has ended. If a signal arrives, the instance commits its work, leaves the group and
    ends.
    """

    def report_end() -> None:
        instance.wait()
        signals.wake()

    threading.Thread(target=report_end, name="instance-end", daemon=True).start()
    if signals.wait():
        if not instance.close(DRAIN_TIMEOUT_S):
            _LOGGER.error("the instance did not commit and leave within %g s; its process ends", DRAIN_TIMEOUT_S)
            end_process(1)
        on_leaving()


def _text(error: BaseException) -> str:
    text = f"{type(error).__name__}: {error}"
    cause = error.__cause__
    return text if cause is None or str(cause) in text else f"{text} ({type(cause).__name__}: {cause})"
