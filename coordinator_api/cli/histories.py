"""The last recorded rebalances of a group, asked of a running coordinator over HTTP, for `assignor explain --last`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from assignor.coordinator_calls import group_path
from assignor.errors import InputError
from assignor.reading.sources import RawLine
from coordinator_api.cli.client import CallFailed, call
from coordinator_api.store.repository import HELD

_MAX_PAGE = 1_000
_GONE = "RESOURCE_NOT_FOUND"


def read(url: str, group_id: str | None, last: int, token_file: str | None) -> Iterator[RawLine]:
    """The newest `last` rebalances of the group, oldest first, each as a line of rebalance/1; `where` is
    url:group:generation. `group_id`: None for the only group there is. Raises InputError when the coordinator cannot be
    asked or refuses, and for several groups of which none is named.
    """
    chosen = _only_group(url, token_file) if group_id is None else group_id
    path = f"{group_path(chosen)}/rebalances"
    for generation in reversed(_newest(url, path, last, token_file)):
        try:
            document = _ask(url, f"{path}/{generation}", token_file)
        except CallFailed as error:
            if error.code == _GONE:
                continue  # dropped since it was listed: only so many are kept
            raise InputError(str(error)) from None
        yield RawLine(f"{url}:{chosen}:{generation}", json.dumps(document, separators=(",", ":")).encode("ascii"))


def _only_group(url: str, token_file: str | None) -> str:
    groups = [str(group["group_id"]) for group in _asked(url, "/v1/groups", token_file)["groups"]]
    if len(groups) != 1:
        listed = ", ".join(groups)
        raise InputError(
            f"there are several groups, name one: {listed}" if groups else f"the coordinator at {url} has no groups",
            "--group",
        )
    return groups[0]


def _newest(url: str, path: str, last: int, token_file: str | None) -> list[int]:
    """Generations, newest first, but none that waits for approval: no member was told of it."""
    generations: list[int] = []
    before: int | None = None
    while len(generations) < last:
        limit = min(last - len(generations), _MAX_PAGE)
        page = _asked(url, path, token_file, limit=limit, before=before)
        generations += [int(each["generation_id"]) for each in page["rebalances"] if each["outcome"] != HELD]
        before = page["next_before"]
        if before is None:
            break
    return generations


def _asked(url: str, path: str, token_file: str | None, **parameters: int | None) -> Any:
    try:
        return _ask(url, path, token_file, **parameters)
    except CallFailed as error:
        raise InputError(str(error)) from None


def _ask(url: str, path: str, token_file: str | None, **parameters: int | None) -> Any:
    answer = call("GET", url, path, token_file, parameters)
    if not isinstance(answer, dict):
        raise InputError("the answer is not a coordinator's: is the address right?", url)
    return answer
