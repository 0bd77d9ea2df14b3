"""Looks for secrets where none may be: in files, however they are packed, and on the command lines of processes.

A secret is looked for as it is, in base64 at each of its three places in a group, in hexadecimal, quoted for a URL
and in UTF-16; inside of gzip and zstandard, wherever in a file they begin, also where the file has them in base64; and
in each value of an SQLite database, since its pages may hold one in pieces.
"""

import base64
import binascii
import contextlib
import re
import secrets
import sqlite3
import threading
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self
from urllib.parse import quote

import zstandard

_GZIP, _ZSTANDARD, _SQLITE = b"\x1f\x8b\x08", b"\x28\xb5\x2f\xfd", b"SQLite format 3\0"
_BASE64 = re.compile(rb"[A-Za-z0-9+/]{32,}={0,2}")
_MOST_UNPACKED = 64 * 1024 * 1024
_DEEPEST = 4
_LOOKS_EVERY_S = 0.02


@dataclass(slots=True)
class Secrets:
    """By what each is for. `files`: where the test itself wrote them, which are not searched."""

    values: dict[str, str] = field(default_factory=dict)
    files: set[Path] = field(default_factory=set)

    def make(self, purpose: str) -> str:
        """A new one, of letters and digits, that stands nowhere else in the world."""
        return self.know(purpose, f"s{secrets.token_hex(16)}")

    def know(self, purpose: str, value: str) -> str:
        assert purpose not in self.values, f"two secrets for {purpose}"
        self.values[purpose] = value
        return value

    def write(self, file: Path, text: str) -> Path:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        self.files.add(file.resolve())
        return file


def forms(secret: str) -> dict[str, bytes]:
    """How it may be written."""
    raw = secret.encode()
    found = {"as it is": raw, "in hexadecimal": raw.hex().encode(), "in UTF-16": secret.encode("utf-16-le")}
    if quote(secret, safe="") != secret:
        found["quoted for a URL"] = quote(secret, safe="").encode()
    for before in range(3):
        # what precedes and follows it in a group of three bytes is not known, and the characters that it decides are
        # left out
        coded = base64.b64encode(b"\0" * before + raw)
        whole = coded[(before * 8 + 5) // 6 : (before + len(raw)) * 8 // 6]
        found[f"in base64 after {before}"] = whole
        found[f"in URL-safe base64 after {before}"] = whole.translate(bytes.maketrans(b"+/", b"-_"))
    return found


@dataclass(slots=True)
class SecretSearch:
    """`found`: one line for each place that has a secret; none of them shows it."""

    secrets: Mapping[str, str]
    found: set[str] = field(default_factory=set)
    files: int = 0
    size: int = 0
    unpacked: int = 0
    values: int = 0

    def in_directory(self, directory: Path, except_for: Iterable[Path] = ()) -> None:
        """Every file below it, and the names of all of them."""
        skipped = {file.resolve() for file in except_for}
        for path in sorted(directory.rglob("*")):
            self.in_bytes(f"the name of {path}", str(path.relative_to(directory)).encode())
            if path.is_symlink() or not path.is_file() or path.resolve() in skipped:
                continue
            content = path.read_bytes()
            self.files += 1
            self.size += len(content)
            self.in_bytes(str(path), content)
            if content.startswith(_SQLITE):
                self._in_database(path)

    def in_bytes(self, where: str, content: bytes, depth: int = 0) -> None:
        for purpose, secret in self.secrets.items():
            for form, written in forms(secret).items():
                if written in content:
                    self.found.add(f"{purpose}, {form}: {where}")
        if depth < _DEEPEST:
            for kind, unpacked in _unpacked(content):
                self.unpacked += 1
                self.in_bytes(f"{where}, in {kind}", unpacked, depth + 1)

    def _in_database(self, file: Path) -> None:
        """What others have not yet copied from the write-ahead log into the file is read, too."""
        with contextlib.closing(sqlite3.connect(f"file:{quote(str(file))}?mode=ro", uri=True)) as database:
            database.text_factory = bytes
            tables = database.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
            for table in (name.decode() for (name,) in tables):
                for row in database.execute(f'SELECT * FROM "{table}"'):
                    for value in row:
                        if isinstance(value, bytes):
                            self.values += 1
                            self.in_bytes(f"{file}, table {table}", value)


def _unpacked(content: bytes) -> Iterator[tuple[str, bytes]]:
    """Whatever begins like something packed, and can be unpacked, at least its beginning."""
    for at in _places(content, _GZIP):
        with contextlib.suppress(zlib.error):
            yield "gzip", zlib.decompressobj(wbits=31).decompress(content[at:], _MOST_UNPACKED)
    for at in _places(content, _ZSTANDARD):
        with contextlib.suppress(zstandard.ZstdError):
            yield "zstandard", zstandard.ZstdDecompressor().decompressobj().decompress(content[at:])
    for found in _BASE64.findall(content):
        with contextlib.suppress(binascii.Error):
            decoded = base64.b64decode(found)
            if any(magic in decoded for magic in (_GZIP, _ZSTANDARD)):
                # a secret that is in base64 alone is found as one of its forms
                yield "base64", decoded


def _places(content: bytes, magic: bytes) -> Iterator[int]:
    at = content.find(magic)
    while at >= 0:
        yield at
        at = content.find(magic, at + 1)


class CommandLines:
    """Every command line that any process of this machine has while this is entered, as /proc shows it to everybody."""

    def __init__(self) -> None:
        self.seen: set[tuple[int, bytes]] = set()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    @property
    def processes(self) -> int:
        return len({pid for pid, _ in self.seen})

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def search(self, search: SecretSearch) -> None:
        for pid, command in sorted(self.seen):
            search.in_bytes(f"the command line of process {pid}", command)

    def _watch(self) -> None:
        while True:
            self._look()
            if self._ended.wait(_LOOKS_EVERY_S):
                return self._look()

    def _look(self) -> None:
        for directory in Path("/proc").iterdir():
            if directory.name.isdigit():
                with contextlib.suppress(OSError):
                    self.seen.add((int(directory.name), (directory / "cmdline").read_bytes()))
