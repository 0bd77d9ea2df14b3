"""Values of placement configs, plain and hostile ones, and how Kafka Streams 4.3.1 and 4.4.0 read them.

`kafka_config_values.json` has for each key each value with what `StreamsConfig` made of it: `["read", value]` or
`["refused", name of the exception]`. As a program, with Kafka's jars: `python -m tests.assignor.kafka_config_values`
writes the file anew.
"""

import json
from pathlib import Path
from typing import Any

from assignor.configs import KNOWN_KEYS
from tests.oracle.jars import DEFAULT_RELEASE
from tests.oracle.oracle import CONFIG_VALUES, Oracle

_FILE = Path(__file__).with_name("kafka_config_values.json")
_NUMBERS = (0, 1, -1, -2, 5, 2**15, 2**31 - 1, -(2**31), 2**31, 2**63 - 1, -(2**63), True, 1.0, 0.5)
_NUMBERS_AS_TEXT = (
    *("0", " 0 ", "-1", "+1", "--1", "+-1", "1.0", "1e3", "0x10", "1_000", "1L", "5,6", "NaN", "true", "null"),
    *("\u0663", "\U0001d7d7", "\u00a05", "\u20035", "\x015\x01", "\t7\n", "0" * 50, "9" * 50),
    *(str(edge) for edge in (2**31 - 1, 2**31, -(2**31), -(2**31) - 1, 2**63 - 1, 2**63, -(2**63), -(2**63) - 1)),
    *("32767", "32768", "-32768", "59999", "60000"),
)
_WORDS = (
    "",
    " ",
    "\x00",
    "none",
    " none",
    "none ",
    "NONE",
    "min_traffic",
    " min_traffic",
    "min_traffic\n",
    "min_traffic,none",
)
_TAGS = (
    *(
        "zone",
        " zone , cluster ",
        "zone,zone",
        ",",
        "a,,b",
        ",a",
        "a,",
        "a,b,",
        "  ,  ",
        "a , ,b",
        "a b",
        "a:b",
        "\u00a0a",
    ),
    *("a" * 20, "a" * 21, f"a,{'b' * 21}", "\u00e9" * 20, "\U0001f600" * 10, "\U0001f600" * 11),
    *("a,b,c,d,e", "a,b,c,d,e,f", "a,a,a,a,a,a"),
)
_LISTS: tuple[list[str], ...] = ([], ["a"], ["a", ""], ["a", "a"], ["a" * 21], [" a "], ["a"] * 6)
VALUES: tuple[object, ...] = (*_NUMBERS, *_NUMBERS_AS_TEXT, *_WORDS, *_TAGS, *_LISTS)
# Kafka has no kafka.version. A leader reads application.server and upgrade.from as text; the lines of
# `kafka-4.4/rebalances_errors` have what Kafka says about them.
_NOT_ASKED = ("minimal.movement.", "kafka.version", "application.server", "upgrade.from")
KEYS = tuple(key for key in KNOWN_KEYS if not key.startswith(_NOT_ASKED))


def in_kafka() -> dict[str, list[list[Any]]]:
    """By key, what Kafka made of each of VALUES, in order."""
    read: dict[str, list[list[Any]]] = json.loads(_FILE.read_text())
    return read


def asked_of_kafka(release: str = DEFAULT_RELEASE) -> dict[str, list[list[Any]]]:
    """The same, by the classes of a release now."""
    with Oracle(harness=CONFIG_VALUES, release=release) as oracle:
        return {
            key: [list(*oracle.ask({"id": key, "key": key, "value": value})["output"].items()) for value in VALUES]
            for key in KEYS
        }


if __name__ == "__main__":
    _FILE.write_text(json.dumps(asked_of_kafka(), indent=None, separators=(",", ":")) + "\n")
