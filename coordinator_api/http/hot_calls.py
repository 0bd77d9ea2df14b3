"""The calls that a fleet makes thousands of times a second, found by their address alone, before FastAPI.

FastAPI has the same functions as routes: it describes them, and it answers an address that comes with another method.
"""

from __future__ import annotations

from starlette.types import Scope

from coordinator_api.http.middleware import HotCall
from coordinator_api.http.routes import members
from coordinator_api.settings import Settings


class HotCalls:
    """Of one service. Source of the addresses: `routes/members.py`."""

    def __init__(self, settings: Settings) -> None:
        self._of_group = {
            ("POST", "subscriptions"): HotCall(
                "/v1/groups/{group}/subscriptions",
                members.subscribe,
                settings.subscription_max_bytes,
                "subscription.max.bytes",
            ),
            ("POST", "heartbeat"): HotCall(
                "/v1/groups/{group}/heartbeat",
                members.process_heartbeat,
                settings.process_heartbeat_max_bytes,
                "process.heartbeat.max.bytes",
            ),
        }
        self._of_member = {
            ("POST", "heartbeat"): HotCall(
                "/v1/groups/{group}/members/{member}/heartbeat",
                members.heartbeat,
                settings.heartbeat_max_bytes,
                "heartbeat.max.bytes",
            ),
            ("GET", "assignment"): HotCall(
                "/v1/groups/{group}/members/{member}/assignment",
                members.fetch_assignment,
                settings.heartbeat_max_bytes,
                "heartbeat.max.bytes",
            ),
        }

        self._leave = HotCall(
            "/v1/groups/{group}/members/{member}", members.leave, settings.heartbeat_max_bytes, "heartbeat.max.bytes"
        )

    def find(self, scope: Scope) -> HotCall | None:
        """The call of this request, whose `path_params` are set then."""
        match scope["path"].split("/"):
            case ["", "v1", "groups", group, "members", member, tail] if group and member:
                found = self._of_member.get((scope["method"], tail))
                parameters = {"group": group, "member": member}
            case ["", "v1", "groups", group, "members", member] if group and member:
                found = self._leave if scope["method"] == "DELETE" else None
                parameters = {"group": group, "member": member}
            case ["", "v1", "groups", group, tail] if group:
                found = self._of_group.get((scope["method"], tail))
                parameters = {"group": group}
            case _:
                return None
        if found is not None:
            scope["path_params"] = parameters
        return found
