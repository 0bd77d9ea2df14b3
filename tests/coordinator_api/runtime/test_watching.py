"""Who looks at a group is woken by its commits, once for all that happened."""

import asyncio
import time

from coordinator_api.runtime.held_requests import Watching


async def test_should_wake_who_looks_at_the_group_and_who_looks_at_all() -> None:
    watching = Watching()
    with watching.watch("a") as of_a, watching.watch("b") as of_b, watching.watch() as of_all:
        watching.changed("a")
        watching.changed("a")

        assert await of_a.wait(60) == {"a"}
        assert await of_all.wait(60) == {"a"}
        assert await of_b.wait(0.01) == frozenset()
        assert await of_a.wait(0.01) == frozenset(), "it was told already"


async def test_should_wake_who_waits_already() -> None:
    watching = Watching()
    with watching.watch() as watcher:
        waiting = asyncio.create_task(watcher.wait(60))
        await asyncio.sleep(0)
        watching.changed("a")
        watching.changed("b")
        assert await waiting == {"a", "b"}


async def test_should_let_everybody_go_when_the_service_stops() -> None:
    watching = Watching()
    with watching.watch("a") as watcher:
        waiting, pausing = asyncio.create_task(watcher.wait(3_600)), asyncio.create_task(watcher.pause(3_600))
        await asyncio.sleep(0)
        watching.release()
        assert await waiting == frozenset()
        await pausing
        assert watcher.released
        assert await watcher.wait(3_600) == frozenset(), "also when it asks again"
    with watching.watch("a") as late:
        assert late.released
        assert await late.wait(3_600) == frozenset()


async def test_should_keep_nothing_of_who_looked() -> None:
    watching = Watching()
    with watching.watch("a"), watching.watch():
        pass

    assert watching._watchers == {}


async def test_should_end_when_it_is_cancelled_in_the_moment_in_which_its_time_is_over() -> None:
    loop = asyncio.get_running_loop()
    with Watching().watch() as watcher:
        pausing = asyncio.create_task(watcher.pause(0.01))
        await asyncio.sleep(0)
        loop.call_later(0.011, pausing.cancel)
        time.sleep(0.02)  # the loop is late, and then does both in one turn
        await asyncio.wait((pausing,))

    assert pausing.cancelled()
