"""Whether the store can be used: one look at a time for all who ask, with an end."""

import asyncio
from typing import cast

from coordinator_api.runtime.store_access import StoreReadiness
from coordinator_api.store.repository import Repository
from coordinator_api.store.store_errors import DamagedDatabase, DatabaseReplaced, StoreError

NOW_MS = iter(range(1_000)).__next__


class Store:
    """Answers each look with the next error, None for none; an Event is waited for first."""

    def __init__(self, *answers: StoreError | asyncio.Event | None) -> None:
        self.answers = list(answers)
        self.looks = 0

    async def check(self) -> None:
        self.looks += 1
        answer = self.answers.pop(0)
        if isinstance(answer, asyncio.Event):
            await answer.wait()
        elif answer is not None:
            raise answer


async def test_should_look_again_and_say_what_is_wrong_without_paths() -> None:
    errors = (StoreError("/secret/path"), DatabaseReplaced("/secret/path"), DamagedDatabase("/secret/path"))
    store = Store(None, *errors, None)
    readiness = StoreReadiness(cast(Repository, store), NOW_MS, holds_for_s=0.0)

    assert [await readiness.problem() for _ in range(5)] == [
        None,
        "it cannot be read or written",
        "its file was deleted or replaced while the service was using it",
        "its file is damaged",
        None,
    ]


async def test_should_look_once_for_all_who_ask_and_not_again_at_once() -> None:
    store = Store(StoreError("broken"))
    readiness = StoreReadiness(cast(Repository, store), NOW_MS, holds_for_s=3_600.0)

    first = await asyncio.gather(*(readiness.problem() for _ in range(5)))

    assert {*first, await readiness.problem()} == {"it cannot be read or written"}
    assert store.looks == 1


async def test_should_not_wait_for_a_store_that_hangs_and_ask_it_no_second_time_meanwhile() -> None:
    answers = asyncio.Event()
    store = Store(answers, None)
    readiness = StoreReadiness(cast(Repository, store), NOW_MS, within_s=0.01, holds_for_s=0.0)

    assert [await readiness.problem() for _ in range(2)] == ["it has not answered for 0.01 s"] * 2
    assert await readiness.problem(0.02) == "it has not answered for 0.02 s"
    assert store.looks == 1
    answers.set()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert await readiness.problem() is None


async def test_should_know_a_problem_and_look_until_it_is_gone() -> None:
    store = Store(StoreError("broken"), StoreError("broken"), None)
    readiness = StoreReadiness(cast(Repository, store), NOW_MS, holds_for_s=0.0)
    await readiness.problem()
    known = readiness.known
    assert known is not None
    assert known.text == "it cannot be read or written"
    assert await readiness.problem() == known.text
    assert readiness.known == known, "since when stays"
    assert await readiness.problem() is None
    assert readiness.known is None
    readiness.close()


async def test_should_look_again_at_once_when_a_commit_has_failed() -> None:
    store = Store(None, StoreError("broken"))
    readiness = StoreReadiness(cast(Repository, store), NOW_MS, holds_for_s=3_600.0)
    assert await readiness.problem() is None
    readiness.suspect()
    assert await readiness.problem() == "it cannot be read or written"
    assert readiness.known is not None
    readiness.close()
