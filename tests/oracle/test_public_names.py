"""The public names of Kafka Streams, as its jar has them, are those that the reference compares with ours."""

import re
import subprocess
import zipfile
from pathlib import Path

import pytest

from docs._ext.kafka_counterparts import PUBLIC_NAMES
from tests.oracle.jars import class_path

pytestmark = pytest.mark.java

_PACKAGE = "org.apache.kafka.streams."
_COMPARED = re.compile(r"(kstream|state|processor/api)/[^/]+\.class|(KafkaStreams|StreamsBuilder|Topology)\.class")
_CLASS = re.compile(r"(?:public |abstract |final |static )*(?:class|interface) (?P<name>[\w.$]+)")
_METHOD = re.compile(r"  (?:.*[ >])?(?P<name>\w+)\(.*\).*;")
_OF_EVERY_OBJECT = {"equals", "hashCode", "toString", "values", "valueOf"}


def test_should_be_the_names_in_the_reference(oracle_jars: str) -> None:
    path = class_path("4.3.1")
    (jar,) = Path(path.removesuffix("*")).glob("kafka-streams-4.3.1.jar")
    with zipfile.ZipFile(jar) as archive:
        entries = [name.removeprefix("org/apache/kafka/streams/") for name in archive.namelist()]
    names = [
        _PACKAGE + entry.removesuffix(".class").replace("/", ".")
        for entry in entries
        if _COMPARED.fullmatch(entry) and not re.search(r"\$\d", entry)
    ]
    shown = subprocess.run(["javap", "-public", "-cp", path, *names], capture_output=True, text=True, check=True).stdout

    found: dict[str, set[str]] = {}
    methods: set[str] = set()
    for line in shown.splitlines():
        if match := _CLASS.match(line):
            methods = found.setdefault(match["name"].removeprefix(_PACKAGE).replace("$", "."), set())
        elif match := _METHOD.fullmatch(line):
            methods.add(match["name"])
    assert {name: sorted(of_class - _OF_EVERY_OBJECT) for name, of_class in found.items()} == PUBLIC_NAMES
