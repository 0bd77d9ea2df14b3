"""`/docs`: the OpenAPI document as one page that needs nothing else, neither a network nor files beside it.

FastAPI's own pages load their scripts from a foreign host, which a coordinator's machine may not reach and should not
trust. This one is made of the document by plain text: calls with parameters, bodies, answers and examples, then the
schemas. Its one small script sends a call and shows the answer; without it everything can still be read.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from html import escape
from typing import Any

Schema = Mapping[str, Any]
Operation = Mapping[str, Any]

_STYLE = """
:root{color-scheme:light dark;--line:#8886;--soft:#8881}
body{font:15px/1.5 system-ui,sans-serif;margin:0;display:grid;grid-template-columns:19rem minmax(0,1fr)}
nav{position:sticky;top:0;height:100vh;overflow:auto;padding:1rem;box-sizing:border-box;
border-right:1px solid var(--line)}
nav ul{list-style:none;padding:0;margin:0 0 1rem}nav li{font-size:13px;overflow-wrap:anywhere;margin:.2rem 0}
main{padding:1rem 2rem;max-width:62rem}
h2{margin-top:2.5rem;text-transform:capitalize}article{border-top:1px solid var(--line);padding:.5rem 0 1rem}
h3{font-size:1rem;overflow-wrap:anywhere}code,pre,textarea,input{font:13px/1.45 ui-monospace,monospace}
pre{background:var(--soft);padding:.6rem;overflow:auto;max-height:22rem}
.method{display:inline-block;min-width:3.6rem;font-weight:700}
table{border-collapse:collapse;width:100%;font-size:14px}
td,th{text-align:left;vertical-align:top;border-bottom:1px solid var(--line);padding:.25rem .6rem .25rem 0}
td:first-child{white-space:nowrap}summary{cursor:pointer}details{margin:.4rem 0}
form label{display:block;margin:.3rem 0}textarea{width:100%;box-sizing:border-box}
@media(max-width:50rem){body{display:block}nav{position:static;height:auto}}
"""

_SCRIPT = """
const token = document.getElementById("token");
for (const form of document.querySelectorAll("form.try")) {
  form.addEventListener("submit", async event => {
    event.preventDefault();
    const shown = form.querySelector("output"), query = new URLSearchParams(), headers = {};
    let path = form.dataset.path, body;
    for (const field of form.querySelectorAll("[data-in]")) {
      if (field.dataset.in === "path") path = path.replace(`{${field.name}}`, encodeURIComponent(field.value));
      else if (field.dataset.in === "body") { body = field.value; headers["Content-Type"] = "application/json"; }
      else if (field.value !== "") query.set(field.name, field.value);
    }
    if (token.value) headers["Authorization"] = `Bearer ${token.value}`;
    const address = query.size ? `${path}?${query}` : path;
    shown.textContent = `${form.dataset.method} ${address} ...`;
    try {
      const answer = await fetch(address.slice(1), {method: form.dataset.method, headers, body});
      const text = await answer.text();
      let pretty = text;
      try { pretty = JSON.stringify(JSON.parse(text), null, 1); } catch {}
      shown.textContent = `${form.dataset.method} ${address}: ${answer.status}\\n${pretty}`;
    } catch (error) {
      shown.textContent = `no answer: ${error}`;
    }
  });
}
"""


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


PAGE_HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": f"default-src 'none'; style-src {_hash(_STYLE)}; script-src {_hash(_SCRIPT)}; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
"""The page runs its own script and calls its own service, and nothing else."""


def reference_page(document: Mapping[str, Any]) -> str:
    """HTML. `document`: OpenAPI 3.1, its references all to its own components."""
    calls = [
        (method.upper(), path, operation)
        for path, operations in document["paths"].items()
        for method, operation in operations.items()
    ]
    by_tag: dict[str, list[tuple[str, str, Operation]]] = {}
    for call in calls:
        by_tag.setdefault(call[2]["tags"][0], []).append(call)
    info, schemas = document["info"], document["components"]["schemas"]
    return "".join(
        (
            '<!doctype html><html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width,initial-scale=1">',
            f"<title>{escape(info['title'])} {escape(info['version'])}: HTTP calls</title>",
            f"<style>{_STYLE}</style></head><body><nav>{''.join(_contents(by_tag))}",
            "<p><a href='#schemas'>Schemas</a></p></nav><main>",
            f"<h1>{escape(info['title'])} {escape(info['version'])}</h1><p>{escape(info.get('summary', ''))}. ",
            "For programs: <a href='openapi.json'>/openapi.json</a>. Errors are RFC 9457 problems whose ",
            "<code>code</code> is Kafka's name of the error.</p>",
            *_security(document),
            *(_section(tag, of_tag) for tag, of_tag in by_tag.items()),
            "<h2 id='schemas'>Schemas</h2>",
            *(_schema_article(name, schema) for name, schema in sorted(schemas.items())),
            f"</main><script>{_SCRIPT}</script></body></html>\n",
        )
    )


def _contents(by_tag: Mapping[str, Iterable[tuple[str, str, Operation]]]) -> Iterator[str]:
    for tag, calls in by_tag.items():
        yield f"<b>{escape(tag)}</b><ul>"
        for method, path, operation in calls:
            yield f"<li><a href='#{escape(operation['operationId'])}'>{method} {escape(path)}</a></li>"
        yield "</ul>"


def _security(document: Mapping[str, Any]) -> Iterator[str]:
    for name, scheme in document["components"].get("securitySchemes", {}).items():
        needed = {} not in document.get("security", [{}])
        needs = "Every call has to carry it, except the health checks." if needed else "This service asks for none."
        yield (
            f"<p><b>{escape(name)}</b> (<code>Authorization: Bearer …</code>): {escape(scheme['description'])} {needs}"
            "</p><p><label>Token for the calls that this page sends: "
            "<input id='token' type='password' autocomplete='off'></label></p>"
        )


def _section(tag: str, calls: Iterable[tuple[str, str, Operation]]) -> str:
    return f"<section><h2>{escape(tag)}</h2>{''.join(_article(*call) for call in calls)}</section>"


def _article(method: str, path: str, operation: Operation) -> str:
    parameters = operation.get("parameters", ())
    return "".join(
        (
            f"<article id='{escape(operation['operationId'])}'><h3><span class='method'>{method}</span> ",
            f"<code>{escape(path)}</code></h3>{_prose(operation.get('description', ''))}",
            _table(("parameter", "in", "values", "what it is"), map(_parameter, parameters)) if parameters else "",
            *_body(operation),
            *_answers(operation),
            _try_out(method, path, operation),
            "</article>",
        )
    )


def _parameter(parameter: Mapping[str, Any]) -> tuple[str, ...]:
    schema = parameter["schema"]
    return (
        f"<code>{escape(parameter['name'])}</code>" + (" *" if parameter.get("required") else ""),
        escape(parameter["in"]),
        _kind(schema),
        _inline(parameter.get("description") or schema.get("description", "")),
    )


def _body(operation: Operation) -> Iterator[str]:
    for media_type, content in operation.get("requestBody", {}).get("content", {}).items():
        yield f"<details><summary>Body, {escape(media_type)}: {_kind(content['schema'])}</summary>"
        yield f"{''.join(_examples(content))}</details>"


def _answers(operation: Operation) -> Iterator[str]:
    """What a call that succeeds is answered with, then all errors folded together."""
    answers = sorted(operation["responses"].items())
    for status, answer in answers:
        if int(status) < 400:
            contents = answer.get("content", {}).items()
            if not contents:
                yield f"<p>Answer {escape(status)}: no body</p>"
            for media_type, content in contents:
                kind = _kind(content["schema"])
                yield f"<details><summary>Answer {escape(status)}, {escape(media_type)}: {kind}</summary>"
                yield f"{''.join(_examples(content))}</details>"
    errors = [(escape(status), _inline(answer["description"])) for status, answer in answers if int(status) >= 400]
    kinds = {
        _kind(content["schema"]): None
        for status, answer in answers
        if int(status) >= 400
        for content in answer.get("content", {}).values()
    }
    yield f"<details><summary>Errors: {', '.join(kinds)}</summary>{_table(('status', 'what it is'), errors)}</details>"


def _examples(content: Mapping[str, Any]) -> Iterator[str]:
    if "example" in content:
        yield f"<pre>{escape(_pretty(content['example']))}</pre>"


def _pretty(example: object) -> str:
    return json.dumps(example, indent=1, ensure_ascii=False)


def _try_out(method: str, path: str, operation: Operation) -> str:
    fields = []
    for parameter in operation.get("parameters", ()):
        if parameter["in"] in ("path", "query"):
            name = escape(parameter["name"])
            required = " required" if parameter["in"] == "path" else ""
            fields.append(
                f"<label>{name} <input name='{name}' data-in='{parameter['in']}' autocomplete='off'{required}></label>"
            )
    for content in operation.get("requestBody", {}).get("content", {}).values():
        example = escape(_pretty(content["example"])) if "example" in content else ""
        fields.append(f"<label>body <textarea name='body' data-in='body' rows='8'>{example}</textarea></label>")
    return (
        f"<details><summary>Try it</summary><form class='try' data-method='{method}' data-path='{escape(path)}'>"
        f"{''.join(fields)}<button>Send</button><pre><output></output></pre></form></details>"
    )


def _schema_article(name: str, schema: Schema) -> str:
    required = schema.get("required", ())
    rows = (
        (
            f"<code>{escape(field)}</code>{' *' if field in required else ''}",
            _kind(about),
            _inline(about.get("description", "")),
        )
        for field, about in schema.get("properties", {}).items()
    )
    fields = _table(("field", "type", "what it is"), rows) if "properties" in schema else f"<p>{_kind(schema)}</p>"
    return (
        f"<article id='schema-{escape(name)}'><h3>{escape(name)}</h3>{_prose(schema.get('description', ''))}{fields}"
        f"{''.join(f'<pre>{escape(_pretty(each))}</pre>' for each in schema.get('examples', ()))}</article>"
    )


def _table(heads: Iterable[str], rows: Iterable[tuple[str, ...]]) -> str:
    head = "".join(f"<th>{escape(each)}</th>" for each in heads)
    lines = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows)
    return f"<table><tr>{head}</tr>{lines}</table>"


_BOUNDS = (
    ("minimum", "at least {}"),
    ("exclusiveMinimum", "more than {}"),
    ("maximum", "at most {}"),
    ("minLength", "{} or more characters"),
    ("maxLength", "up to {} characters"),
    ("maxItems", "up to {}"),
    ("default", "default {}"),
)


def _kind(schema: Schema) -> str:
    """What values a schema takes, in words; schemas by name are links."""
    if "$ref" in schema:
        name = escape(schema["$ref"].rpartition("/")[2])
        return f"<a href='#schema-{name}'>{name}</a>"
    for choice in ("anyOf", "oneOf"):
        if choice in schema:
            return " or ".join(_kind(each) for each in schema[choice]) + _bounds(schema)
    if "enum" in schema:
        return ", ".join(f"<code>{escape(json.dumps(each))}</code>" for each in schema["enum"])
    if "const" in schema:
        return f"<code>{escape(json.dumps(schema['const']))}</code>"
    kind = schema.get("type", "any")
    if kind == "array":
        kind = f"list of {_kind(schema.get('items', {}))}"
    elif kind == "object" and isinstance(schema.get("additionalProperties"), Mapping):
        kind = f"map of {_kind(schema['additionalProperties'])}"
    elif isinstance(kind, list):
        kind = " or ".join(kind)
    encoding = f" ({escape(schema['contentEncoding'])})" if "contentEncoding" in schema else ""
    return f"{kind}{encoding}{_bounds(schema)}"


def _bounds(schema: Schema) -> str:
    said = [words.format(json.dumps(schema[name])) for name, words in _BOUNDS if schema.get(name) is not None]
    return f", {escape(', '.join(said))}" if said else ""


def _prose(text: str) -> str:
    return "".join(f"<p>{_inline(paragraph)}</p>" for paragraph in text.split("\n\n") if paragraph.strip())


def _inline(text: str) -> str:
    """With what stands between backticks as code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text, quote=False))
