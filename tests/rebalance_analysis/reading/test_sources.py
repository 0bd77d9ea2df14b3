"""What the commands read: which inputs are found, how each kind is read, and what is said of one that cannot be."""

import gzip
import os
import threading
from collections.abc import Callable, Iterator
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path

import pytest

from assignor.errors import InputError
from rebalance_analysis.reading import lines, sources
from rebalance_analysis.reading.sources import (
    DamagedSource,
    RawLine,
    Source,
    SourceKind,
    find_sources,
    raw_lines,
    shown,
)
from tests.program import SMOKE, assignor

PARQUET = b"PAR1 and more"
SQLITE = b"SQLite format 3\0 and more"


def plugged_in(monkeypatch: pytest.MonkeyPatch, kind: str, value: str) -> None:
    """Installs a package that reads `kind` by `value`, and no other package that reads anything."""
    installed = EntryPoints([EntryPoint(name=kind, value=value, group="assignor.recordings")])
    monkeypatch.setattr(sources, "entry_points", lambda **chosen: installed.select(**chosen))


class TestFindSources:
    def test_should_tell_the_kind_by_the_first_bytes_and_not_by_the_name(self, tmp_path: Path) -> None:
        contents = {
            "plain.gz": (b'{"id": "one"}\n', SourceKind.JSONL),
            "packed.jsonl": (gzip.compress(b"{}"), SourceKind.GZIP),
            "columns.json": (PARQUET, SourceKind.PARQUET),
            "rows": (SQLITE, SourceKind.DATABASE),
            "nothing.parquet": (b"", SourceKind.JSONL),
        }
        for name, (content, _) in contents.items():
            (tmp_path / name).write_bytes(content)
        paths = [str(tmp_path / name) for name in contents]
        assert find_sources([*paths, "-"]) == [
            *(Source(path, kind) for path, (_, kind) in zip(paths, contents.values(), strict=True)),
            Source("-", SourceKind.STDIN),
        ]

    @pytest.mark.parametrize(
        "url", ["sqlite:///a.sqlite3", "sqlite+aiosqlite:////a", "postgresql+asyncpg://u:p@h/d", "postgres://h/d"]
    )
    def test_should_take_the_url_of_a_database_for_one(self, url: str) -> None:
        assert find_sources([url]) == [Source(url, SourceKind.DATABASE)]

    def test_should_look_into_directories_in_the_order_of_paths(self, tmp_path: Path) -> None:
        for name in ("b.jsonl", "a/2.json", "a/1.jsonl.gz", "a/deep/x.json.gz", "a/readme.txt", "c.parquet"):
            file = tmp_path / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(gzip.compress(b"") if name.endswith(".gz") else PARQUET if "parquet" in name else b"")
        assert find_sources([str(tmp_path)]) == [
            Source(str(tmp_path / "a/1.jsonl.gz"), SourceKind.GZIP),
            Source(str(tmp_path / "a/2.json"), SourceKind.JSONL),
            Source(str(tmp_path / "a/deep/x.json.gz"), SourceKind.GZIP),
            Source(str(tmp_path / "b.jsonl"), SourceKind.JSONL),
            Source(str(tmp_path / "c.parquet"), SourceKind.PARQUET),
        ]

    def test_should_skip_what_spark_writes_beside_its_parts(self, tmp_path: Path) -> None:
        part = "part-00000-6f0c-c000.snappy.parquet"
        for name in ("_SUCCESS", f".{part}.crc", "_temporary/0/part-1.parquet", ".staging/p.parquet", part):
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_bytes(PARQUET)
        assert find_sources([str(tmp_path)]) == [Source(str(tmp_path / part), SourceKind.PARQUET)]

    def test_should_not_take_results_that_lie_beside_the_recordings_for_recordings(self, tmp_path: Path) -> None:
        results = tmp_path / "results"
        (results / "parts").mkdir(parents=True)
        for name in ("plan.json", "a/plan.json"):  # one of results, one that is called so only
            (tmp_path / name).parent.mkdir(exist_ok=True)
            (tmp_path / name).write_text("{}")
        (results / "plan.json").write_text('{"format": "batch/1"}')
        for name in ("rounds.parquet", "rejects.jsonl", "parts/00000000-1-0.parquet"):
            (results / name).write_bytes(PARQUET)
        found = [str(tmp_path / name) for name in ("a/plan.json", "plan.json")]
        assert [source.name for source in find_sources([str(tmp_path)])] == found
        with pytest.raises(InputError, match="has the results of a run, and no recordings"):
            find_sources([str(results)])

    def test_should_name_what_it_looks_for_in_an_empty_directory(self, tmp_path: Path) -> None:
        (tmp_path / "notes.txt").touch()
        with pytest.raises(InputError) as refused:
            find_sources([str(tmp_path)])
        assert str(refused.value) == (
            f"{tmp_path}: cannot be read: the directory has no recordings in it "
            "(*.jsonl, *.jsonl.gz, *.json, *.json.gz, *.parquet)"
        )

    @pytest.mark.parametrize("name", ["/no/such/file", "no\0name", "http://127.0.0.1:1"])
    def test_should_refuse_what_is_not_there(self, name: str) -> None:
        with pytest.raises(InputError, match="cannot be opened"):
            find_sources([SMOKE, name])

    def test_should_leave_a_pipe_untouched(self, tmp_path: Path) -> None:
        pipe = tmp_path / "pipe"
        os.mkfifo(pipe)
        (source,) = find_sources([str(pipe)])
        writing = threading.Thread(target=pipe.write_bytes, args=(gzip.compress(b'{"id": 1}\n\n{"id": 2}\n'),))
        writing.start()
        assert list(raw_lines(source)) == [RawLine(f"{pipe}:1", b'{"id": 1}\n'), RawLine(f"{pipe}:3", b'{"id": 2}\n')]
        writing.join()


class TestRawLines:
    @pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "gzip"])
    def test_should_give_each_line_with_its_place(self, tmp_path: Path, pack: Callable[[bytes], bytes]) -> None:
        file = tmp_path / "lines"
        file.write_bytes(pack(b"one\n\n  \ntwo"))
        (source,) = find_sources([str(file)])
        assert list(raw_lines(source)) == [RawLine(f"{file}:1", b"one\n"), RawLine(f"{file}:4", b"two")]

    def test_should_give_what_comes_before_damaged_data(self, tmp_path: Path) -> None:
        file = tmp_path / "cut.gz"
        file.write_bytes(gzip.compress(b"one\ntwo\n" * 10_000)[:-9])
        read = raw_lines(find_sources([str(file)])[0])
        assert next(read) == RawLine(f"{file}:1", b"one\n")
        with pytest.raises(DamagedSource) as damaged:
            for _ in read:
                pass
        assert damaged.value.reason.startswith("the gzip data is damaged: ")

    def test_should_ask_the_package_of_the_kind(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        plugged_in(monkeypatch, "parquet", "tests.rebalance_analysis.reading.test_sources:three_lines")
        file = tmp_path / "p"
        file.write_bytes(PARQUET)
        assert [line.content for line in raw_lines(find_sources([str(file)])[0])] == [b"{}", b"nonsense", b'{"a": 1}']

    @pytest.mark.parametrize(
        ("kind", "content", "message"),
        [
            ("parquet", PARQUET, "to read Parquet: pip install 'assignor[batch]' (No module named 'no_such_module')"),
            ("database", SQLITE, "to read a database: pip install 'assignor[coordinator]' (No module named"),
        ],
    )
    def test_should_name_the_extra_that_a_kind_needs(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, content: bytes, message: str
    ) -> None:
        file = tmp_path / "input"
        file.write_bytes(content)
        for value in ("no_such_module:read", "tests.rebalance_analysis.reading.test_sources:needs_what_is_absent"):
            plugged_in(monkeypatch, kind, value)
            ran = assignor("assign", str(file))
            assert (ran.returncode, ran.stdout) == (2, "")
            assert ran.stderr.startswith(f"error: {file}: {message}")
        plugged_in(monkeypatch, "another", "tests.rebalance_analysis.reading.test_sources:three_lines")
        assert "(no installed package registers it)" in assignor("assign", str(file)).stderr

    @pytest.mark.parametrize("content", [PARQUET, SQLITE], ids=["parquet", "sqlite"])
    def test_should_not_read_a_file_with_an_index_from_stdin(self, content: bytes) -> None:
        ran = assignor("assign", "-", stdin=content)
        assert ran.returncode == 2
        assert "is not read from a pipe: name the file" in ran.stderr

    def test_should_never_show_a_password(self) -> None:
        assert shown("postgresql://me:se:cr@t@host:5432/db") == "postgresql://me:***@host:5432/db"
        assert shown("postgresql://h/db?password=secret&user=me") == "postgresql://h/db?password=***&user=me"
        assert shown("postgresql://h/db?ssl=x&sslpassword=secret") == "postgresql://h/db?ssl=x&sslpassword=***"
        assert shown("postgresql://me:se/cret@host/db") == "postgresql://me:***@host/db"
        assert shown("postgresql://host:5432/db") == "postgresql://host:5432/db"
        assert shown("sqlite:////data/a:b@c.sqlite3") == "sqlite:////data/a:b@c.sqlite3"
        assert shown("a:b@c.jsonl") == "a:b@c.jsonl"


class TestReadLines:
    def test_should_keep_lines_with_document_or_problem(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        plugged_in(monkeypatch, "parquet", "tests.rebalance_analysis.reading.test_sources:three_lines")
        (tmp_path / "1.jsonl").write_bytes(b'{"id": 7}\n')
        (tmp_path / "2.jsonl").write_bytes(gzip.compress(b"{}")[:-6])
        (tmp_path / "3.parquet").write_bytes(PARQUET)
        read = list(lines.read_lines([str(tmp_path)]))
        assert [(line.document, line.content) for line in read] == [
            ({"id": 7}, b'{"id": 7}\n'),
            (None, None),
            ({}, b"{}"),
            (None, b"nonsense"),
            ({"a": 1}, b'{"a": 1}'),
        ]
        assert [line.where for line in read[:2]] == [f"{tmp_path / '1.jsonl'}:1", f"{tmp_path / '2.jsonl'}:1"]
        problems = [line.problem or "" for line in read]
        assert problems[1].startswith("the gzip data is damaged")
        assert problems[3].startswith("is not a line of JSON")


def three_lines(name: str) -> Iterator[RawLine]:
    """A plug-in."""
    for number, content in enumerate((b"{}", b"nonsense", b'{"a": 1}'), start=1):
        yield RawLine(f"{name}:{number}", content)


def needs_what_is_absent(name: str) -> Iterator[RawLine]:
    """A plug-in that imports its library when it is asked."""
    import no_such_module  # type: ignore[import-not-found]

    yield from no_such_module.read(name)
