"""A process that owns groups of a database and writes them for as long as it lives: `owning_process URL NAME`.

It takes every group that is free, gives one away now and then, and writes who it is, and in which epoch, into the log
of each that it owns. It does not say when it has lost one; the database has to refuse what it writes then.
"""

from __future__ import annotations

import asyncio
import random
import sys

from coordinator_api.settings import Settings
from coordinator_api.store.errors import ConcurrentWriter, NotOwner
from coordinator_api.store.opening import OpenStore, open_store

_GIVES_AWAY = 0.1


async def own(url: str, name: str) -> None:
    async with open_store(Settings(database_url=url)) as opened:
        await opened.lease_store.enter(name, f"http://{name}:1", "0.1")
        opened.repository.owned_by(name)
        mine: dict[str, int] = {}
        while (view := await opened.lease_store.poll(name)) is not None:
            others = sorted(view.coordinators.keys() - {name})
            for group in view.groups.values():
                if group.owner is None or group.owner not in view.coordinators:
                    if await opened.lease_store.take(group.group_id, group.owner, group.epoch, name):
                        mine[group.group_id] = group.epoch + 1
                elif group.owner == name:
                    mine.setdefault(group.group_id, group.epoch)
            await asyncio.gather(*(_write(opened, name, mine, group_id) for group_id in list(mine)))
            for group_id, epoch in list(mine.items()):
                if others and random.random() < _GIVES_AWAY:
                    # it goes on writing the group, until it is refused
                    await opened.lease_store.hand_over(group_id, epoch, name, random.choice(others))


async def _write(opened: OpenStore, name: str, mine: dict[str, int], group_id: str) -> None:
    sequence = (await opened.repository.load_group(group_id)).sequence
    try:
        await opened.repository.append(group_id, sequence, [f"{name} {mine[group_id]}"], epoch=mine[group_id])
    except NotOwner:
        del mine[group_id]
    except ConcurrentWriter:
        pass


if __name__ == "__main__":
    asyncio.run(own(*sys.argv[1:]))
