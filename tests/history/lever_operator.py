"""An operator: looks at groups and pulls their levers, as chance has it, and writes down what the service answered."""

import random
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import httpx

from coordinator_client.calls import group_path, refusal_of
from streams_runtime import Application
from streams_runtime.instance.application import group_body
from streams_runtime.membership.calls import CoordinatorError, CoordinatorUnavailable, coordinator_error
from tests.history.recorder import Recorder
from tests.history.word_counts import PROBING_INTERVAL

NOT_SENT = "NOT_SENT"
_TIMEOUT_S = 8.0
_MEAN_PAUSE_S = 0.3
_PERSISTENCE_S = 240.0
_RETRY_S = 0.2

_WEIGHTS: Mapping[str, float] = {
    "describe": 12,
    "hold": 1,
    "end-hold": 1.5,
    "approve": 2,
    "discard": 1,
    "pause": 0.6,
    "resume": 2,
    "promotion": 0.7,
    "end-promotion": 0.7,
    "rejoin-grace": 0.7,
    "end-rejoin-grace": 0.7,
    "drain": 0.8,
    "end-drain": 1.5,
    "rebalance": 0.5,
    "declare": 0.3,
}
_ENDS = ("end-hold", "resume", "end-promotion", "end-rejoin-grace")


class LeverOperator:
    """`taken`: how many pieces of its requests its proxy has taken. `define`: returns an application of a group, with a
    definition that nobody has declared.
    """

    def __init__(
        self,
        url: str,
        taken: Callable[[], int],
        recorder: Recorder,
        groups: Sequence[str],
        chance: random.Random,
        define: Callable[[str], Application],
    ) -> None:
        self._http = httpx.Client(base_url=url, timeout=_TIMEOUT_S, trust_env=False)
        self._taken = taken
        self._recorder = recorder
        self._groups = groups
        self._chance = chance
        self._define = define
        self._pulls = 0
        self._declared: dict[str, Application] = {}
        self._processes: dict[str, list[str]] = {group: [] for group in groups}
        self._drained: dict[str, list[str]] = {group: [] for group in groups}
        self._held: dict[str, int | None] = dict.fromkeys(groups)

    def work(self, stop: threading.Event) -> None:
        """Until `stop` is set."""
        while not stop.wait(self._chance.expovariate(1 / _MEAN_PAUSE_S)):
            group = self._chance.choice(self._groups)
            operation = self._chance.choices(list(_WEIGHTS), list(_WEIGHTS.values()))[0]
            try:
                self._do(group, operation)
            except (CoordinatorError, CoordinatorUnavailable):
                continue  # it is written down

    def declare_at_first(self) -> dict[str, Application]:
        """Every group, before its members start. Returns the declared applications."""
        for group in self._groups:
            self._persist(group, "declare")
        return dict(self._declared)

    def end_levers(self) -> None:
        """Once no more faults come. Raises what a call ended with when the service does not answer for minutes."""
        for group in self._groups:
            for operation in _ENDS:
                self._persist(group, operation)
            self._persist(group, "describe")
            while self._drained[group]:
                self._persist(group, "end-drain")
                self._persist(group, "describe")

    def _persist(self, group: str, operation: str) -> None:
        deadline_s = time.monotonic() + _PERSISTENCE_S
        while True:
            try:
                self._do(group, operation)
                return
            except (CoordinatorError, CoordinatorUnavailable) as error:
                if isinstance(error, CoordinatorError) and error.code != NOT_SENT:
                    raise
                if time.monotonic() > deadline_s:
                    raise
                time.sleep(_RETRY_S)

    def _do(self, group: str, operation: str) -> None:
        path = group_path(group)
        self._pulls += 1
        tag = f"pull {self._pulls} of {self._recorder.client}"
        match operation:
            case "describe":
                self._describe(group)
            case "declare":
                self._declare(group)
            case "hold":
                body = {"time_limit_ms": self._chance.randrange(2_000, 20_000)}
                self._pull(group, operation, "PUT", f"{path}/hold", tag, body)
            case "end-hold":
                self._pull(group, operation, "DELETE", f"{path}/hold", tag)
            case "pause" | "resume" | "rebalance":
                self._pull(group, operation, "POST", f"{path}/{operation}", tag)
            case "promotion":
                self._pull(group, operation, "PUT", f"{path}/promotion", tag)
            case "rejoin-grace":
                body = {"grace_ms": self._chance.randrange(2_000, 15_000)}
                self._pull(group, operation, "PUT", f"{path}/rejoin-grace", tag, body)
            case "end-promotion" | "end-rejoin-grace":
                self._pull(group, operation, "DELETE", f"{path}/{operation.removeprefix('end-')}", tag)
            case "approve" | "discard":
                held = self._held[group]
                if held is not None:
                    self._held[group] = None
                    self._decide(group, operation, held, tag)
            case "drain" | "end-drain":
                known = self._processes[group] if operation == "drain" else self._drained[group]
                if known:
                    self._drain(group, operation, self._chance.choice(known), tag)

    def _pull(
        self, group: str, operation: str, method: str, path: str, tag: str, body: Mapping[str, object] | None = None
    ) -> None:
        with self._recorder.call(group, operation, {"tag": tag}):
            self._ask(method, path, {"reason": tag}, body)

    def _decide(self, group: str, operation: str, held: int, tag: str) -> None:
        with self._recorder.call(group, operation, {"generation_id": held, "tag": tag}) as answer:
            params: dict[str, str | int] = {"generation": held, "reason": tag}
            answer.update(self._ask("POST", f"{group_path(group)}/{operation}", params).json())

    def _drain(self, group: str, operation: str, process_id: str, tag: str) -> None:
        with self._recorder.call(group, operation, {"process_id": process_id, "tag": tag}):
            method = "POST" if operation == "drain" else "DELETE"
            self._ask(method, f"{group_path(group)}/drain", {"instance": process_id, "reason": tag})

    def _declare(self, group: str) -> None:
        application = self._declared[group] = self._define(group)
        definition = str(application.configs.assignment[PROBING_INTERVAL])
        with self._recorder.call(group, "declare", {"definition": definition}) as answer:
            answer["revision"] = self._ask("PUT", group_path(group), {}, group_body(application)).json()["revision"]

    def _describe(self, group: str) -> None:
        with self._recorder.call(group, "describe", {}) as answer:
            answer.update(_described(self._ask("GET", group_path(group), {}).json()))
        self._processes[group] = sorted({each["process_id"] for each in answer["members"] if each["process_id"]})
        self._drained[group] = list(answer["levers"]["drained"])
        self._held[group] = answer["held"]

    def _ask(
        self, method: str, path: str, params: Mapping[str, str | int], body: Mapping[str, object] | None = None
    ) -> httpx.Response:
        """Raises CoordinatorError for a refusal, CoordinatorUnavailable for everything that may be tried again.

        What the proxy did not even take, because the service was away, has no effect for certain: `NOT_SENT`. It has
        turned that connection away, so nothing of it is passed on later.
        """
        taken = self._taken()
        try:
            response = self._http.request(method, path, params=params, json=body)
        except httpx.TransportError as fault:
            if not isinstance(fault, httpx.TimeoutException) and self._taken() == taken:
                raise coordinator_error(NOT_SENT, 0, repr(fault)) from fault
            raise CoordinatorUnavailable(f"{method} {path}: {fault!r}") from fault
        if not response.is_success:
            refusal = refusal_of(response.status_code, response.content)
            if refusal.may_be_repeated or response.status_code >= httpx.codes.INTERNAL_SERVER_ERROR:
                raise CoordinatorUnavailable(f"{method} {path}: {refusal.code}")
            raise coordinator_error(refusal.code or f"HTTP_{refusal.status}", refusal.status, refusal.detail or "")
        return response

    def close(self) -> None:
        self._http.close()


def _described(document: Mapping[str, Any]) -> dict[str, Any]:
    """What the model asks of a description."""
    levers = document["levers"]
    held = document["held_rebalance"]
    return {
        "state": document["state"],
        "generation_id": document["generation_id"],
        "revision": document["revision"],
        "definition": str(document["configs"][PROBING_INTERVAL]),
        "held": None if held is None else held["generation_id"],
        "levers": {
            **{name: None if (said := levers[name]) is None else said["reason"] for name in _LEVERS},
            "drained": {each["process_id"]: each["reason"] for each in levers["drained"]},
        },
        "members": [
            {
                "member_id": each["member_id"],
                "process_id": each["process_id"],
                "generation_id": each["generation_id"],
                "is_away": each["away_until_ms"] is not None,
                "active": each["active"],
                "standby": [*each["standby"], *each["warm_up"]],
            }
            for each in document["members"]
        ],
    }


_LEVERS = ("hold", "pause", "promotion", "rejoin_grace")
