"""Random cases of stores with a record cache, in the format of `tests/streams_runtime/golden/README.md`.

As a program: `python -m tests.oracle.generated_store_caches 150` writes so many cases of windows with Kafka's answers.
"""

import gzip
import json
import sys
from pathlib import Path
from random import Random
from typing import Any

from tests.oracle.oracle import STORE_CACHES, Oracle

_GOLDEN = Path(__file__).parent.parent / "streams_runtime" / "golden" / "window_caches.jsonl.gz"
_KEYS = ("", "k0", "k1", "k2", "z" * 30)
_ROOMY = 10 * 1024 * 1024
_STARTS = [number * 20_000 for number in range(13)]


def store_caches_case(seed: int | str, *, windows: bool) -> dict[str, Any]:
    """One or two stores, and up to six records with up to 25 calls each."""
    random = Random(seed)
    roomy = random.random() < 0.2
    stores = [_store(name, random, windows) for name in ("one", "two")[: random.choice((1, 1, 2))]]
    return {
        "seed": seed,
        "flavour": ("roomy" if roomy else "evicting") + (" windows" if windows else ""),
        "bytes": _ROOMY if roomy else random.choice((1, 100, 200, 300, 400, 600, 1000)),
        "stores": stores,
        "inputs": [_input(number, stores, random, roomy) for number in range(random.randint(1, 6))],
    }


def _store(name: str, random: Random, windows: bool) -> dict[str, Any]:
    store: dict[str, Any] = {
        "name": name,
        "ts": random.random() < 0.7,
        "persistent": random.random() < 0.5,
        "caching": random.random() < 0.9,
        "logging": random.random() < 0.8,
        "old": random.random() < 0.5,
        "listens": random.random() < 0.8,
    }
    if windows:
        size_ms = random.choice((1_000, 30_000))
        store["window"] = {"size": size_ms, "retention": size_ms + random.choice((0, 60_000, 400_000))}
    return store


def _input(number: int, stores: list[dict[str, Any]], random: Random, roomy: bool) -> dict[str, Any]:
    headers = [["h", "v" * random.randint(0, 6)]] * random.choice((0, 0, 1, 2))
    labels = [f"{number}.{step}" for step in range(random.randint(0, 25))]
    steps = [_step(label, random.choice(stores), random, roomy) for label in labels]
    return {"at": 1_000 + 10 * number + random.randint(0, 20), "headers": headers, "steps": steps}


def _step(label: str, store: dict[str, Any], random: Random, roomy: bool) -> list[Any]:
    """Ranges only where nothing is evicted: in Kafka they count as a use of what they read, and not so here."""
    key = random.choice(_KEYS)
    value = None if random.random() < 0.15 else label + "x" * random.choice((0, 0, 5))
    later_ms = random.randint(-3, 3)
    if "window" in store:
        call = random.choice(("put", "put", "put", "put", "fetch", "fetch", *(("range", "all") * roomy)))
        from_ms = random.choice(_STARTS)
        to_ms = from_ms + random.choice((0, 20_000, 100_000, 400_000))
        return [store["name"], call, key, value if call == "put" else None, later_ms, from_ms, to_ms]
    ranges = ("range", "reverse", "all", "prefix") * roomy
    call = random.choice(("put",) * 10 + ("get",) * 5 + ("delete",) * 2 + ("absent",) + ranges)
    if call == "absent" and value is None:
        value = label
    if call == "prefix":
        key = "k"  # Kafka's cache refuses an empty one
    if call in ("range", "reverse"):
        key, value = sorted((key, random.choice(_KEYS)))
    return [store["name"], call, key, value if call in ("put", "absent", "range", "reverse") else None, later_ms]


def main(count: int) -> None:
    with Oracle(harness=STORE_CACHES) as oracle, gzip.GzipFile(_GOLDEN, "wb", mtime=0) as golden:
        for seed in range(1, count + 1):
            case = store_caches_case(seed, windows=True)
            line = {"case": case, "kafka": oracle.ask(case)["output"]}
            golden.write(json.dumps(line, separators=(",", ":")).encode() + b"\n")


if __name__ == "__main__":
    main(int(sys.argv[1]))
