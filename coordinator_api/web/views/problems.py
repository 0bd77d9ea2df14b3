"""A problem in words for people: what happened, and what they can do."""

from __future__ import annotations

from dataclasses import dataclass

_WHAT_TO_DO = {
    "GROUP_ID_NOT_FOUND": "Check the name. The list of groups has all that your token may see.",
    "INVALID_GROUP_ID": "Check the address. The list of groups leads to each of them.",
    "RESOURCE_NOT_FOUND": "Check the address, or go on from the list of groups.",
    "GROUP_AUTHORIZATION_FAILED": "Ask for a token with this right and for this group, and log in with it.",
    "CLUSTER_AUTHORIZATION_FAILED": "If a proxy is named above, change the proxy. If the form was "
    "sent from this page, load the page again. If a right is missing, log in with a token that has it.",
    "NOT_COORDINATOR": "This coordinator only shows the group. Steer it where it is led.",
    "THROTTLING_QUOTA_EXCEEDED": "The service is busy. Wait a few seconds, then load the page again.",
    "KAFKA_STORAGE_ERROR": "The change does not count. Look at the database, then try again.",
    "COORDINATOR_NOT_AVAILABLE": "The service is stopping or its store is not well. Load the page again in a moment; "
    "members keep the tasks they have meanwhile.",
    "UNKNOWN_SERVER_ERROR": "Look for the incident in the service's log, and report it.",
}


@dataclass(frozen=True, slots=True)
class ProblemView:
    """`what_to_do`: a sentence or two."""

    status: int
    code: str
    title: str
    detail: str
    what_to_do: str

    @classmethod
    def of(cls, code: str, status: int, title: str, detail: str) -> ProblemView:
        detail = detail[:1].upper() + detail[1:] + ("" if detail.endswith((".", "?", "!")) else ".")
        return cls(status, code, title, detail, _WHAT_TO_DO.get(code, "Go back, change what is named, and try again."))
