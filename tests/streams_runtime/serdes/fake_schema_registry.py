"""A fake schema registry: a real HTTP server on loopback with the calls of Confluent's REST API that clients make.

It is a fake because tests need one in milliseconds, without Java, and told to fail. It keeps what it was given and
checks neither schemas nor compatibility. Confluent's own client, serializers and deserializers are run against it, and
`test_real_registry.py` holds its answers against those of a real registry.
"""

import base64
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit

Schema = dict[str, Any]


@dataclass(slots=True)
class FakeSchemaRegistry:
    """`asked`: method and path of every request. `credentials`: user:password, without which it answers 401."""

    url: str = ""
    credentials: str | None = None
    asked: list[str] = field(default_factory=list)
    schemas: list[Schema] = field(default_factory=list)
    subjects: dict[str, list[int]] = field(default_factory=dict)
    failing: int | None = None

    def register(self, subject: str, schema: Schema) -> int:
        """The id, from 1."""
        if schema not in self.schemas:
            self.schemas.append(schema)
        schema_id = self.schemas.index(schema) + 1
        versions = self.subjects.setdefault(subject, [])
        if schema_id not in versions:
            versions.append(schema_id)
        return schema_id

    def answer(self, method: str, path: str, body: Any, authorization: str | None) -> tuple[int, Any]:
        self.asked.append(f"{method} {path}")
        if self.failing is not None:
            return self.failing, {"error_code": self.failing * 100 + 1, "message": "Error in the backend data store"}
        if self.credentials is not None:
            expected = "Basic " + base64.b64encode(self.credentials.encode()).decode()
            if authorization != expected:
                return 401, {"error_code": 401, "message": "Unauthorized"}
        match [unquote(part) for part in urlsplit(path).path.strip("/").split("/")], method:
            case ["subjects", subject, "versions"], "POST":
                return 200, {"id": self.register(subject, _schema(body))}
            case ["subjects", subject], "POST":
                return self._look_up(subject, _schema(body))
            case ["subjects", subject, "versions", version], "GET":
                return self._version(subject, version)
            case ["schemas", "ids", schema_id], "GET":
                if not 0 < int(schema_id) <= len(self.schemas):
                    return 404, {"error_code": 40403, "message": "Schema not found"}
                return 200, self.schemas[int(schema_id) - 1]
        return 404, {"error_code": 404, "message": "HTTP 404 Not Found"}

    def _look_up(self, subject: str, schema: Schema) -> tuple[int, Any]:
        if subject not in self.subjects:
            return 404, {"error_code": 40401, "message": f"Subject '{subject}' not found."}
        if schema not in self.schemas or self.schemas.index(schema) + 1 not in self.subjects[subject]:
            return 404, {"error_code": 40403, "message": "Schema not found"}
        return self._version(subject, str(self.subjects[subject].index(self.schemas.index(schema) + 1) + 1))

    def _version(self, subject: str, version: str) -> tuple[int, Any]:
        versions = self.subjects.get(subject)
        if versions is None:
            return 404, {"error_code": 40401, "message": f"Subject '{subject}' not found."}
        number = len(versions) if version == "latest" else int(version)
        if not 0 < number <= len(versions):
            return 404, {"error_code": 40402, "message": "Version not found."}
        schema_id = versions[number - 1]
        return 200, {"subject": subject, "version": number, "id": schema_id, **self.schemas[schema_id - 1]}


def _schema(body: Schema) -> Schema:
    """As the API answers it: Avro is not named, and references are left out when there are none."""
    kept = {key: value for key, value in body.items() if key in ("schema", "schemaType", "references") and value}
    if kept.get("schemaType") == "AVRO":
        del kept["schemaType"]
    return kept


@contextmanager
def fake_schema_registry(credentials: str | None = None) -> Iterator[FakeSchemaRegistry]:
    registry = FakeSchemaRegistry(credentials=credentials)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(length)) if length else None
            status, document = registry.answer(self.command, self.path, body, self.headers.get("Authorization"))
            content = json.dumps(document).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = answer

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    registry.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield registry
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
