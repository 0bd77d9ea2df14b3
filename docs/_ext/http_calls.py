"""The reference of the HTTP calls, from the OpenAPI document that the coordinator serves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from coordinator_api.http.app import create_app
from coordinator_api.http.openapi import described
from coordinator_api.settings import Settings
from docs._ext.markdown import code, table

_METHODS = ("get", "put", "post", "delete", "patch")


def openapi_document() -> dict[str, Any]:
    """What `GET /openapi.json` answers."""
    return described(create_app(Settings()))


def coordinator_calls() -> str:
    """One section a call: what it does, its parameters, its body, its answers."""
    document = openapi_document()
    return "\n".join(_section(method, path, each, document) for method, path, each in calls(document))


def calls(document: Mapping[str, Any]) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """Method, path and operation of each call, in the document's order."""
    for path, operations in document["paths"].items():
        for method in _METHODS:
            if method in operations:
                yield method.upper(), path, operations[method]


def _section(method: str, path: str, operation: Mapping[str, Any], document: Mapping[str, Any]) -> str:
    parts = [f"## {method} {path}\n", f"{operation.get('description') or operation.get('summary', '')}\n"]
    parameters = [(code(each["name"]), each["in"], *_about(each)) for each in operation.get("parameters", ())]
    if parameters:
        parts.append(table(("parameter", "in", "values", "what it is"), parameters))
    body = operation.get("requestBody", {}).get("content", {})
    for schema in (each.get("schema", {}) for each in body.values()):
        parts.append(_body(schema, document))
        break  # other content types carry the same document, packed
    answers = [(code(status), answer.get("description", "")) for status, answer in operation["responses"].items()]
    parts.append(table(("status", "the answer"), answers))
    return "\n".join(parts)


def _about(parameter: Mapping[str, Any]) -> tuple[str, str]:
    schema = parameter.get("schema", {})
    values = _kind(schema) + ("" if "default" not in schema else f", default {code(str(schema['default']))}")
    return values, parameter.get("description") or schema.get("description", "")


def _body(schema: Mapping[str, Any], document: Mapping[str, Any]) -> str:
    """The fields of a body, one level deep; the names of what is inside are those of /openapi.json."""
    name = schema.get("$ref", "").rpartition("/")[2]
    found = document["components"]["schemas"].get(name, schema)
    required = found.get("required", ())
    rows = [
        (code(each), _kind(about), "must be given" if each in required else "", about.get("description", ""))
        for each, about in found.get("properties", {}).items()
    ]
    if not rows:
        return f"The body is JSON{f' ({code(name)})' if name else ''}.\n"
    return f"The body{f' ({code(name)})' if name else ''}:\n\n" + table(("field", "type", "", "what it is"), rows)


def _kind(schema: Mapping[str, Any]) -> str:
    if "$ref" in schema:
        return code(schema["$ref"].rpartition("/")[2])
    if "anyOf" in schema:
        return " or ".join(_kind(each) for each in schema["anyOf"])
    if "enum" in schema:
        return ", ".join(code(str(each)) for each in schema["enum"])
    if schema.get("type") == "array":
        return f"list of {_kind(schema.get('items', {}))}"
    return str(schema.get("type", "any"))
