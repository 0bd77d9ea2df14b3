"""The serdes and the commands on a real schema registry, and what it answers beside what the fake one answers."""

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote
from urllib.request import Request, urlopen

import pytest

from streams_runtime import STRING, AvroSerde, JsonSchemaSerde, NewTopic, ProtobufSerde, RecordProducer, open_log
from streams_runtime.common.errors import SchemaRegistryUnavailable, SerializationError
from tests import program
from tests.checkout import ROOT
from tests.oracle import jars
from tests.oracle.broker import require_jars
from tests.oracle.schema_registry import real_schema_registry
from tests.streams_runtime.serdes.fake_schema_registry import fake_schema_registry
from tests.streams_runtime.serdes.messages import Line, Money, Order

pytestmark = pytest.mark.java

ORDER = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [{"name": "customer", "type": "string"}, {"name": "cents", "type": "long"}],
}
WITH_NOTE = {**ORDER, "fields": [*ORDER["fields"], {"name": "note", "type": "string", "default": "none"}]}
CENTS_AS_TEXT = {**ORDER, "fields": [ORDER["fields"][0], {"name": "cents", "type": "string"}]}
VALUE = {"customer": "ann", "cents": 5}
JSON_SCHEMA = {"title": "Paid", "type": "object", "properties": {"cents": {"type": "integer"}}, "required": ["cents"]}
MONEY_TEXT = 'syntax = "proto3";\npackage shop;\n\nmessage Money {\n  int64 cents = 1;\n}\n'
TAKES_MORE = {**JSON_SCHEMA, "required": []}
TAKES_TEXT = {**JSON_SCHEMA, "properties": {"cents": {"type": "string"}}}


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """One registry for all; each test has subjects of its own."""
    try:
        with real_schema_registry(tmp_path_factory.mktemp("registry")) as running:
            yield running
    except jars.JarsUnavailable as reason:
        if require_jars():
            raise
        pytest.skip(str(reason))


def _ask(url: str, method: str, path: str, body: object = None) -> tuple[int, Any]:
    content = None if body is None else json.dumps(body).encode()
    request = Request(url + path, content, {"Content-Type": "application/vnd.schemaregistry.v1+json"}, method=method)
    try:
        with urlopen(request, timeout=30) as answer:
            return answer.status, json.load(answer)
    except HTTPError as error:
        return error.code, json.load(error)


def _check_compatibility(url: str, subject: str) -> None:
    body = {"compatibility": "BACKWARD"}
    assert _ask(url, "PUT", f"/config/{quote(subject, safe='')}", body) == (200, body)


def _configs(url: str, **more: object) -> dict[str, object]:
    return {
        "schema.registry.url": url,
        "max.retries": 0,
        **{key.replace("_", "."): value for key, value in more.items()},
    }


def _avro(url: str, schema: Any, topic: str, **more: object) -> AvroSerde[Any]:
    return AvroSerde(schema, _configs(url, **more)).for_topic(topic, is_key=False)


def _json(url: str, schema: Any, topic: str) -> JsonSchemaSerde[Any]:
    return JsonSchemaSerde(schema, _configs(url)).for_topic(topic, is_key=False)


def _protobuf(url: str, message: Any, topic: str, **more: object) -> ProtobufSerde[Any]:
    return ProtobufSerde(message, _configs(url, **more)).for_topic(topic, is_key=False)


def test_should_be_answered_by_the_fake_as_by_a_real_one(tmp_path: Path) -> None:
    """Each call follows those before it. Ids and texts of errors are the registry's own; the codes are the API's."""
    order, text = {"schema": json.dumps(ORDER)}, {"schema": '"string"'}
    line = {"schema": json.dumps({"type": "record", "name": "Line", "fields": [{"name": "of", "type": "shop.Order"}]})}
    refers = {**line, "references": [{"name": "shop.Order", "subject": "orders-value", "version": 1}]}
    calls: Sequence[tuple[str, str, object]] = [
        ("POST", "/subjects/orders-value/versions", order),
        ("POST", "/subjects/orders-value/versions", order),
        ("POST", "/subjects/orders-value/versions", {**text, "schemaType": "AVRO"}),
        ("POST", "/subjects/others-value/versions", order),
        ("POST", "/subjects/lines-value/versions", refers),
        ("POST", "/subjects/paid-value/versions", {"schema": json.dumps(JSON_SCHEMA), "schemaType": "JSON"}),
        *(("GET", f"/schemas/ids/{{{nth}}}", None) for nth in range(4)),
        ("GET", "/schemas/ids/99999", None),
        *(("GET", f"/subjects/orders-value/versions/{version}", None) for version in (1, 2, "latest", 9)),
        ("GET", "/subjects/nobody/versions/latest", None),
        ("GET", "/subjects/lines-value/versions/1", None),
        ("POST", "/subjects/orders-value", order),
        ("POST", "/subjects/others-value", text),
        ("POST", "/subjects/nobody", order),
    ]
    with fake_schema_registry() as fake, real_schema_registry(tmp_path) as url:
        answers = [_answers(each, calls) for each in (fake.url, url)]

    for call, faked, real in zip(calls, *answers, strict=True):
        assert faked == real, call


def _answers(url: str, calls: Sequence[tuple[str, str, object]]) -> list[tuple[int, Any]]:
    """Status and document, with ids numbered as they came up, which paths name so; of an error its code only."""
    ids: list[int] = []
    answers: list[tuple[int, Any]] = []
    for method, path, body in calls:
        status, document = _ask(url, method, path.format(*ids), body)
        if status != 200:
            answers.append((status, document["error_code"]))
            continue
        told = {key: value for key, value in document.items() if value != []}
        if "id" in told:
            if told["id"] not in ids:
                ids.append(told["id"])
            told["id"] = ids.index(told["id"])
        if "schema" in told:
            told["schema"] = json.loads(told["schema"])
        answers.append((status, told))
    return answers


def test_should_write_on_a_real_registry_what_is_written_on_the_fake_and_read_it_back(url: str) -> None:
    ordered: Any = Order(id="a", total=Money(cents=5), lines=[Line(article="pen", counts={"b": 2, "a": 1})])
    with fake_schema_registry() as fake:
        for value, real, faked in [
            (VALUE, _avro(url, ORDER, "written"), _avro(fake.url, ORDER, "written")),
            ({"cents": 5}, _json(url, JSON_SCHEMA, "paid"), _json(fake.url, JSON_SCHEMA, "paid")),
            (ordered, _protobuf(url, Order, "messages"), _protobuf(fake.url, Order, "messages")),
            (ordered.lines[0], _protobuf(url, Line, "lines"), _protobuf(fake.url, Line, "lines")),
        ]:
            data = real.serialize(value)
            assert data[5:] == faked.serialize(value)[5:], "but for the schema's id"
            assert real.deserialize(data) == value

    subjects = set(_ask(url, "GET", "/subjects")[1])
    assert {"written-value", "paid-value", "messages-value", "shop/money.proto", "lines-value"} <= subjects


@pytest.mark.parametrize("form", ["avro", "json"])
def test_should_say_what_the_registry_refuses_because_it_is_incompatible(url: str, form: str) -> None:
    topic = f"refused-{form}"
    serdes: dict[str, tuple[Any, object, Any, object]] = {
        "avro": (_avro(url, ORDER, topic), VALUE, _avro(url, CENTS_AS_TEXT, topic), {**VALUE, "cents": "5"}),
        "json": (_json(url, JSON_SCHEMA, topic), {"cents": 5}, _json(url, TAKES_TEXT, topic), {"cents": "5"}),
    }
    good, value, bad, other = serdes[form]
    data = good.serialize(value)
    _check_compatibility(url, f"{topic}-value")

    with pytest.raises(SerializationError) as refused:
        bad.serialize(other)

    assert f"schema could not be registered under subject {topic}-value: " in str(refused.value)
    assert "(HTTP 409)" in str(refused.value)
    assert good.deserialize(data) == value
    assert _ask(url, "GET", f"/subjects/{topic}-value/versions") == (200, [1])


def test_should_write_protobuf_under_a_schema_that_was_registered_as_text_and_is_checked(url: str) -> None:
    """Apicurio compares Protobuf as text only: it cannot check what clients of Python and C register."""
    topic = "checked-text"
    for text in (MONEY_TEXT, MONEY_TEXT.replace("}", "  string note = 2;\n}")):
        body = {"schema": text, "schemaType": "PROTOBUF"}
        assert _ask(url, "POST", f"/subjects/{topic}-value/versions", body)[0] == 200
        _check_compatibility(url, f"{topic}-value")
    body = {"schema": MONEY_TEXT.replace("int64", "string"), "schemaType": "PROTOBUF"}
    assert _ask(url, "POST", f"/subjects/{topic}-value/versions", body)[0] == 409

    with pytest.raises(SchemaRegistryUnavailable, match=r"cannot answer: .*\(HTTP 500\)"):
        _protobuf(url, Money, topic).serialize(Money(cents=7))
    money = _protobuf(url, Money, topic, use_latest_version=True)

    assert money.deserialize(money.serialize(Money(cents=7))).cents == 7


_WRITES = """
import sys
from streams_runtime import STRING, AvroSerde, RecordProducer, open_log
log = open_log(sys.argv[1])
serde = AvroSerde(sys.argv[3], {"schema.registry.url": sys.argv[2]})
with RecordProducer(log, STRING, serde) as producer:
    producer.send("orders", "ann", {"customer": "ann", "cents": 5, "note": "first"})
log.close()
"""


def test_should_exchange_records_between_processes_and_the_commands(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = f"embedded:{tmp_path / 'log'}"
    with closing(open_log(address)) as log:
        log.create_topics([NewTopic("orders", 1)])
    written = subprocess.run(
        [sys.executable, "-c", _WRITES, address, url, json.dumps(WITH_NOTE)],
        env=program.environment(),
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert written.returncode == 0, written.stderr
    monkeypatch.setenv("SCHEMA_REGISTRY_URL", url)
    server = ("--bootstrap-server", address)

    produced = program.assignor(
        *("produce", "orders", *server, "--key-separator", ":", "--value-serializer", "avro"),
        stdin=b'bob:{"customer":"bob","cents":7,"note":"second"}\n',
    )
    consumed = program.assignor(
        "consume", "orders", *server, "--from-beginning", "--until-end", "--value-deserializer", "avro"
    )

    assert produced.returncode == 0, produced.stderr
    assert [json.loads(line) for line in consumed.stdout.splitlines()] == [
        {"customer": "ann", "cents": 5, "note": "first"},
        {"customer": "bob", "cents": 7, "note": "second"},
    ]


@pytest.mark.parametrize("form", ["json-schema", "protobuf"])
def test_should_write_and_show_json_schema_and_protobuf_by_the_commands(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    topic = f"shown-{form}"
    monkeypatch.setenv("SCHEMA_REGISTRY_URL", url)
    monkeypatch.setenv("ASSIGNOR_BOOTSTRAP_SERVER", f"embedded:{tmp_path / 'log'}")
    serde: Any = _json(url, JSON_SCHEMA, topic) if form == "json-schema" else _protobuf(url, Order, topic)
    value: Any = {"cents": 5} if form == "json-schema" else Order(id="a", total=Money(cents=5))
    with closing(open_log(f"embedded:{tmp_path / 'log'}")) as log:
        log.create_topics([NewTopic(topic, 1)])
        with RecordProducer(log, STRING, serde) as producer:
            producer.send(topic, "ann", value)

    # of order.proto, the first message is one without fields
    line = b'{"cents":7}\n' if form == "json-schema" else b"{}\n"
    written = program.assignor("produce", topic, "--value-serializer", form, stdin=line)
    shown = program.assignor("consume", topic, "--from-beginning", "--until-end", "--value-deserializer", form)

    assert written.returncode == 0, written.stderr
    assert [json.loads(each) for each in shown.stdout.splitlines()] == (
        [{"cents": 5}, {"cents": 7}]
        if form == "json-schema"
        else [{"id": "a", "total": {"cents": "5"}, "lines": []}, {}]
    )
