"""Reads the last recorded rebalances of a group from a running coordinator over HTTP, for `assignor explain --last`."""

import json
from collections.abc import Callable, Iterator
from typing import Any

from assignor.errors import InputError
from coordinator_api.cli.client import CallFailed, call
from coordinator_api.store.repository import HELD
from coordinator_client.calls import group_path
from rebalance_analysis.reading.sources import RawLine

_MAX_PAGE = 1_000
_GONE = "RESOURCE_NOT_FOUND"


def read(url: str, group_id: str | None, last: int, token_file: str | None) -> Iterator[RawLine]:
    """Yields the newest rebalances of the group, ordered from old to new. Each item is one line in the format
    rebalance/1. The field `where` of each line has the form url:group:generation. `group_id`: the group; None for the
    coordinator's only group. `last`: the largest number of rebalances. Raises InputError if the coordinator does not
    answer or refuses the call. Also raises InputError if `group_id` is None and the coordinator has several groups.
    """

    def get(path: str, **parameters: int | None) -> Any:
        return call("GET", url, path, token_file, parameters)

    try:
        chosen = _only_group(get, url) if group_id is None else group_id
        path = f"{group_path(chosen)}/rebalances"
        for generation in reversed(_newest(get, path, last)):
            try:
                document = get(f"{path}/{generation}")
            except CallFailed as error:
                if error.code == _GONE:
                    continue  # the rebalance was deleted after it was listed (rebalances.retained.count)
                raise
            yield RawLine(f"{url}:{chosen}:{generation}", json.dumps(document, separators=(",", ":")).encode("ascii"))
    except CallFailed as error:
        raise InputError(str(error)) from None


def _only_group(get: Callable[..., Any], url: str) -> str:
    groups = [str(group["group_id"]) for group in get("/v1/groups")["groups"]]
    if len(groups) != 1:
        listed = ", ".join(groups)
        raise InputError(
            f"there are several groups, name one: {listed}" if groups else f"the coordinator at {url} has no groups",
            "--group",
        )
    return groups[0]


def _newest(get: Callable[..., Any], path: str, last: int) -> list[int]:
    """Returns the newest generations, newest first. Rebalances with the outcome `held` are left out, because no member
    got their assignments.
    """
    generations: list[int] = []
    before: int | None = None
    while len(generations) < last:
        page = get(path, limit=min(last - len(generations), _MAX_PAGE), before=before)
        generations += [int(each["generation_id"]) for each in page["rebalances"] if each["outcome"] != HELD]
        before = page["next_before"]
        if before is None:
            break
    return generations
