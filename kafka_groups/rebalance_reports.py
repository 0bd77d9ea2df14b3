"""Reports rebalances to a coordinator that did not lead them. The coordinator then shows the groups of these rebalances
like its own groups. This module also makes the line of a generation that never got an assignment.

A generation gets no assignment if its leader has failed, or if the next rebalance begins before the leader sends the
assignments. Kafka stores no record of a generation without an assignment. The members of this generation send their
subscriptions again for the next generation. So the line of a generation without assignments has the input of the next
generation, and no output.

A report is one POST of the rebalance/1 document to the coordinator that owns the group. If a report fails, the caller
shows RebalanceNotReported as a warning and continues its work.
"""

import json
from collections.abc import Mapping

import tenacity

from assignor.errors import AssignorFault
from coordinator_client.addresses import CoordinatorCall
from coordinator_client.calls import CoordinatorAddress, CoordinatorRefused, NoAnswer, group_path
from coordinator_client.http_client import CoordinatorHttpClient

_ANSWER_TIMEOUT_S = 10.0
_TRIES = 3
_FIRST_PAUSE_S = 0.2

OVERTAKEN = "another rebalance overtook it"

_OF_THE_OUTCOME = ("output", "led_by")


def interrupted_document(id: str, generation_id: int, why: str, following: Mapping[str, object]) -> dict[str, object]:
    """Returns the rebalance/1 line of a generation that never got an assignment. `why`: the reason why the generation
    got no assignment, for example `OVERTAKEN`. `following`: the line of the next generation.
    """
    line = {key: value for key, value in following.items() if key not in _OF_THE_OUTCOME}
    return {
        **line,
        "id": id,
        "generation_id": generation_id,
        "note": f"this generation never got an assignment: {why}; the input is that of generation "
        f"{following['generation_id']}, which came next",
        "interrupted": True,
    }


class RebalanceNotReported(AssignorFault):
    """The coordinator could not be reached, or refused the rebalance. The message of the error has the reason."""


def report_rebalance(coordinator: CoordinatorAddress, document: Mapping[str, object]) -> None:
    """Sends a rebalance/1 line to the coordinator. Reporting the same rebalance twice does no harm.

    Raises RebalanceNotReported. Raises InputError if the file of the token or a TLS file can no longer be read. Also
    raises InputError if the host of an address is not valid.
    """
    body = json.dumps(document, separators=(",", ":")).encode()
    call = CoordinatorCall(f"{group_path(str(document['group_id']))}/rebalances", _ANSWER_TIMEOUT_S)
    retrying = tenacity.Retrying(
        stop=tenacity.stop_after_attempt(_TRIES),
        wait=tenacity.wait_exponential(_FIRST_PAUSE_S) + tenacity.wait_random(0, _FIRST_PAUSE_S),
    )
    headers = {"Content-Type": "application/json"}
    try:
        with CoordinatorHttpClient(coordinator.addresses, coordinator.token(), headers=headers) as http:
            http.call("POST", call, content=body, retrying=retrying)
    except NoAnswer as error:
        raise RebalanceNotReported(f"coordinator at {coordinator.url}: {error}") from None
    except CoordinatorRefused as error:
        refusal = error.refusal
        place = f"coordinator at {coordinator.url}" if refusal.may_be_repeated else f"{error.address}{call.path}"
        raise RebalanceNotReported(f"{place}: status {refusal.status}: {refusal.detail}") from None
