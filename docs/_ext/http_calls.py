"""The reference of the HTTP calls, from the OpenAPI document that the coordinator serves."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from coordinator_api.http.app import create_app
from coordinator_api.http.openapi import described
from coordinator_api.settings import Settings
from docs._ext.markdown import code, table

_METHODS = ("get", "put", "post", "delete", "patch")
_CODE = re.compile(r"\b[A-Z]+_[A-Z_]+\b")
_SAYS_NOTHING = ("Successful Response", "OK")


def openapi_document() -> dict[str, Any]:
    """The answer to `GET /openapi.json`."""
    return described(create_app(Settings()))


def coordinator_calls() -> str:
    """The errors of all calls, then one section a call: what it does, its parameters, its body, its answers."""
    document = openapi_document()
    everywhere = _errors_everywhere(document)
    sections = [_section(method, path, each, document, everywhere) for method, path, each in calls(document)]
    return "\n".join([_errors(document, everywhere), *sections])


def calls(document: Mapping[str, Any]) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """Method, path and operation of each call, in the document's order."""
    for path, operations in document["paths"].items():
        for method in _METHODS:
            if method in operations:
                yield method.upper(), path, operations[method]


def _errors(document: Mapping[str, Any], everywhere: frozenset[str]) -> str:
    """Every status of an error, with the codes that come with it."""
    told: dict[str, set[str]] = {}
    for _, _, operation in calls(document):
        for status, answer in _failures(operation):
            told.setdefault(status, set()).update(_CODE.findall(answer.get("description", "")))
    rows = (
        (
            code(status),
            "every call" if status in everywhere else "calls that name it",
            ", ".join(map(code, sorted(codes))),
        )
        for status, codes in sorted(told.items())
    )
    return "## Errors\n\n" + table(("status", "answered by", "`code` of the problem"), rows)


def _errors_everywhere(document: Mapping[str, Any]) -> frozenset[str]:
    of_each = [frozenset(status for status, _ in _failures(operation)) for _, _, operation in calls(document)]
    return frozenset.intersection(*of_each)


def _failures(operation: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any]]]:
    return [(status, answer) for status, answer in operation["responses"].items() if status >= "400"]


def _section(
    method: str, path: str, operation: Mapping[str, Any], document: Mapping[str, Any], everywhere: frozenset[str]
) -> str:
    parts = [f"## {method} {path}\n", f"{operation.get('description') or operation.get('summary', '')}\n"]
    parameters = [(code(each["name"]), each["in"], *_about(each)) for each in operation.get("parameters", ())]
    if parameters:
        parts.append(table(("parameter", "in", "values", "what it is"), parameters))
    body = operation.get("requestBody", {}).get("content", {})
    for schema in (each.get("schema", {}) for each in body.values()):
        parts.append(_body(schema, document))
        break  # other content types carry the same document, packed
    good = [(code(status), _answer(answer)) for status, answer in operation["responses"].items() if status < "400"]
    parts.append(table(("status", "the answer"), good))
    own = [code(status) for status, _ in _failures(operation) if status not in everywhere]
    if own:
        parts.append(f"[Errors](#errors) beside those of every call: {', '.join(own)}.\n")
    return "\n".join(parts)


def _answer(answer: Mapping[str, Any]) -> str:
    """The description of the answer in OpenAPI, if there is one, and its schema or media type."""
    kinds = [
        code(kind) if kind != "application/json" else _kind(each.get("schema", {}))
        for kind, each in answer.get("content", {}).items()
    ]
    said = answer.get("description", "")
    return ": ".join(each for each in ("" if said in _SAYS_NOTHING else said, " or ".join(kinds)) if each) or "no body"


def _about(parameter: Mapping[str, Any]) -> tuple[str, str]:
    schema = parameter.get("schema", {})
    values = _kind(schema) + ("" if "default" not in schema else f", default {code(json.dumps(schema['default']))}")
    return values, parameter.get("description") or schema.get("description", "")


def _body(schema: Mapping[str, Any], document: Mapping[str, Any]) -> str:
    """The fields of a body, one level deep; the names of what is inside are those of /openapi.json."""
    name = schema.get("$ref", "").rpartition("/")[2]
    found = {**document["components"]["schemas"].get(name, {}), **schema}
    required = found.get("required", ())
    rows = [
        (code(each), _kind(about), "yes" if each in required else "", about.get("description", ""))
        for each, about in found.get("properties", {}).items()
    ]
    if not rows:
        return f"The body is JSON{f' ({code(name)})' if name else ''}. {found.get('description', '')}\n"
    return f"The body{f' ({code(name)})' if name else ''}:\n\n" + table(("field", "type", "needed", "what it is"), rows)


def _kind(schema: Mapping[str, Any]) -> str:
    if "$ref" in schema:
        return code(schema["$ref"].rpartition("/")[2])
    if "anyOf" in schema:
        return " or ".join(_kind(each) for each in schema["anyOf"])
    if "enum" in schema:
        return ", ".join(code(str(each)) if each != "" else "nothing" for each in schema["enum"])
    if schema.get("type") == "array":
        return f"list of {_kind(schema.get('items', {}))}"
    return str(schema.get("type", "any"))
