"""Compares the answers of Kafka and of this project: everything in them, to the last header and checksum."""

import json
import zlib
from typing import Any

from tests.dsl_vectors.cases import Case
from tests.dsl_vectors.errors import error_difference, headers_agree
from tests.dsl_vectors.running import Run

_ERROR_HEADERS = ("__streams.errors.exception", "__streams.errors.message")
_MOST_SHOWN = 3

Output = dict[str, Any]


def differences(case: Case, run: Run) -> list[str]:
    """One line each; none when both answers are the same."""
    kafka, here = case.written, run.answer
    found = [error_difference(kafka.get("error"), run)]
    found += _outputs(kafka, run)
    if "error" not in kafka and "error" not in here:
        found += _stores(kafka.get("stores"), here["stores"])
    dropped = kafka.get("dropped_records"), here.get("dropped_records")
    if json_text(dropped[0]) != json_text(dropped[1]):
        found.append(f"dropped: {dropped[0]} in Kafka, {dropped[1]} here")
    if "internal" in kafka or "internal" in here:
        found += _internal(kafka.get("internal"), run)
    return [each for each in found if each is not None]


def json_text(value: Any) -> str:
    """1, 1.0 and true are different texts, and equal in Python."""
    return json.dumps(value, ensure_ascii=False, sort_keys=True)


def _outputs(kafka: dict[str, Any], run: Run) -> list[str]:
    failed_at = run.answer.get("error", {}).get("at")
    theirs: list[Output] = [_without_empty_headers(output) for output in kafka["outputs"]]
    ours: list[Output] = run.answer["outputs"]
    if isinstance(failed_at, int):
        ours = [*ours, *_delivered(theirs, run, failed_at)]
    agreed = [_with_agreed_errors(x, y) for x, y in zip(theirs, ours, strict=False)]
    shown_theirs, shown_ours = (
        [*map(json_text, theirs)],
        [*map(json_text, agreed), *map(json_text, ours[len(agreed) :])],
    )
    if shown_theirs == shown_ours:
        return []
    pairs = enumerate(zip(shown_theirs, shown_ours, strict=False))
    first = next((index for index, (x, y) in pairs if x != y), min(len(theirs), len(ours)))
    order_only = " (order only)" if sorted(shown_theirs) == sorted(shown_ours) else ""
    kafka_rows, here_rows = (", ".join(rows[first : first + _MOST_SHOWN]) for rows in (shown_theirs, shown_ours))
    return [
        f"outputs{order_only}: {len(theirs)} in Kafka, {len(ours)} here; from {first} on: "
        f"Kafka [{kafka_rows}], here [{here_rows}]"
    ]


def _without_empty_headers(output: Output) -> Output:
    return {name: value for name, value in output.items() if name != "headers" or value}


def _delivered(theirs: list[Output], run: Run, failed_at: int) -> list[Output]:
    """Of what the input has sent that failed: as much as Kafka's driver has delivered, which loses the rest."""
    delivered: dict[str, int] = {}
    for output in theirs:
        if output.get("after") == failed_at:
            delivered[output["topic"]] = delivered.get(output["topic"], 0) + 1
    kept = []
    for output in run.outputs_of_failure:
        if delivered.get(output["topic"], 0) > 0:
            delivered[output["topic"]] -= 1
            kept.append(output)
    return kept


def _with_agreed_errors(theirs: Output, ours: Output) -> Output:
    """Ours with the headers of Kafka that name the error, if it is the same error."""
    kafka, here = dict(theirs.get("headers", ())), dict(ours.get("headers", ()))
    if not all(isinstance(headers.get(name), str) for headers in (kafka, here) for name in _ERROR_HEADERS):
        return ours
    if not headers_agree(*(kafka[name] for name in _ERROR_HEADERS), *(here[name] for name in _ERROR_HEADERS)):
        return ours
    own = {name: kafka[name] for name in _ERROR_HEADERS}
    return {**ours, "headers": [[name, own.get(name, value)] for name, value in ours["headers"]]}


def _stores(theirs: dict[str, Any] | None, ours: dict[str, Any]) -> list[str]:
    if theirs is None:
        return ["stores: none in Kafka's answer"]
    found = []
    for name in sorted({*theirs, *ours}):
        if name not in theirs or name not in ours:
            found.append(f"store {name}: only {'here' if name in ours else 'in Kafka'}")
        elif json_text(theirs[name]) != json_text(ours[name]):
            found.append(f"store {name}: {_store_difference(theirs[name], ours[name])}")
    return found


def _store_difference(theirs: Any, ours: Any) -> str:
    if not isinstance(theirs, dict) or not isinstance(ours, dict) or theirs.get("type") != ours["type"]:
        return f"Kafka {_kind(theirs)}, here {_kind(ours)}"
    kafka_rows, here_rows = [*map(json_text, theirs.get("rows", ()))], [*map(json_text, ours["rows"])]
    only_kafka = [row for row in kafka_rows if row not in here_rows][:_MOST_SHOWN]
    only_here = [row for row in here_rows if row not in kafka_rows][:_MOST_SHOWN]
    return f"only Kafka [{', '.join(only_kafka)}], only here [{', '.join(only_here)}]"


def _kind(store: Any) -> str:
    return f"a {store.get('type')} store" if isinstance(store, dict) else "no store"


def _internal(theirs: dict[str, Any] | None, run: Run) -> list[str]:
    ours = run.answer.get("internal")
    if theirs is None or ours is None:
        return [f"internal topics: none in the answer of {'Kafka' if theirs is None else 'this project'}"]
    possible = {topic: [state] for topic, state in ours.items()}
    for topic, row in run.internal_of_failure:  # Kafka's driver loses what it had not delivered
        states = possible.setdefault(topic, [None])
        count, crc = states[-1] or (0, 0)
        states.append([count + 1, zlib.crc32(row.encode(), crc)])
    found = []
    for topic in sorted({*theirs, *possible}):
        states = possible.get(topic, [None])
        if json_text(theirs.get(topic)) not in map(json_text, states):
            found.append(f"records of {topic}: Kafka {theirs.get(topic, 'none')}, here {states[0] or 'none'}")
    return found
