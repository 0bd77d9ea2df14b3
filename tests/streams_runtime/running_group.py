"""One application on the embedded log, its instances, and what a test waits for."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from assignor.types import TaskId
from streams_runtime import Application, CoordinatorClient, InstanceOptions, StreamsInstance, open_log
from streams_runtime.common.states import TaskState, TaskType
from streams_runtime.logs.base import Log
from tests.streams_runtime.word_counting import (
    TIMEOUT_S,
    RememberingListener,
    counting_application,
    counting_definition,
    create_topics,
    totals,
    wait_for,
    write_lines,
)

EXACTLY_ONCE, AT_LEAST_ONCE = "exactly_once_v2", "at_least_once"
GUARANTEES = [EXACTLY_ONCE, AT_LEAST_ONCE]
ALL_TASKS = {TaskId(0, 0), TaskId(0, 1), TaskId(1, 0), TaskId(1, 1)}
SOME_LINES = ["the cat and the dog and the bird"] * 150


@dataclass(slots=True)
class Group:
    """One application, its log and its instances. `words`: what was written, counted."""

    id: str
    directory: Path
    client: CoordinatorClient
    guarantee: str
    log: Log
    words: Counter[str] = field(default_factory=Counter)
    instances: list[StreamsInstance] = field(default_factory=list)

    def application(self, name: str = "a", **more: Any) -> Application:
        return counting_application(
            self.id, self.directory / "log", self.directory / name, guarantee=self.guarantee, **more
        )

    def declare(self, *, standbys: int = 1) -> None:
        self.client.declare(self.id, counting_definition(self.application(), standbys=standbys).body())

    def start(
        self,
        name: str = "a",
        *,
        listener: RememberingListener | None = None,
        serve_at: str | None = None,
        incarnation: int | None = None,
        **more: Any,
    ) -> StreamsInstance:
        instance = self.prepared(name, listener=listener, serve_at=serve_at, incarnation=incarnation, **more)
        instance.start()
        return instance

    def prepared(
        self,
        name: str = "a",
        *,
        listener: RememberingListener | None = None,
        serve_at: str | None = None,
        incarnation: int | None = None,
        **more: Any,
    ) -> StreamsInstance:
        """One that has not started yet."""
        told = listener or RememberingListener()
        instance = StreamsInstance(
            self.application(name, **more),
            self.client,
            InstanceOptions(
                thread_name=lambda index: f"{name}-{index}",
                thread_listener=lambda _name: told,
                serve_at=serve_at,
                incarnation=incarnation,
            ),
        )
        self.instances.append(instance)
        return instance

    def write(self, lines: list[str]) -> None:
        self.words += write_lines(self.log, lines)

    def wait_until_counted(self) -> None:
        wait_for(
            lambda: totals(self.log) == dict(self.words),
            lambda: (totals(self.log), [(each.status(), each.errors) for each in self.instances]),
        )

    def wait_until_settled(self, *instances: StreamsInstance, standbys: int, caught_up: bool = True) -> None:
        """Until these own every task once between them, all running, with so many standbys (that have caught up)."""

        def settled() -> bool:
            tasks = [task for each in instances for thread in each.status().threads for task in thread.tasks]
            active = [task.task_id for task in tasks if task.role is TaskType.ACTIVE]
            standby = [task for task in tasks if task.role is TaskType.STANDBY]
            return (
                sorted(active) == sorted(ALL_TASKS)
                and all(task.state is TaskState.RUNNING for task in tasks)
                and len([task for task in standby if task.lag == 0 or not caught_up]) == standbys
            )

        wait_for(settled, lambda: [each.status() for each in instances])


@contextmanager
def running_group(test: str, guarantee: str, client: CoordinatorClient, directory: Path) -> Iterator[Group]:
    """Declared, with its topics, without instances; they are closed at the end. `test`: names the application."""
    name = "".join(letter if letter.isalnum() else "-" for letter in test)[-80:]
    made = Group(name, directory, client, guarantee, open_log(f"embedded:{directory / 'log'}"))
    create_topics(made.log, made.id)
    made.declare()
    try:
        yield made
    finally:
        for instance in made.instances:
            instance.close(TIMEOUT_S)
        made.log.close()
