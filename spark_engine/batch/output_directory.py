"""Manages the output directory of a run. The output directory contains the results of the run. If the run is stopped,
the directory contains the finished parts, from which the next run continues.

`plan.json` identifies the run. When all parts are merged, `plan.json` also marks the run as finished. Before the merge,
`parts/<digest>/` has the parts. The result of a run is `<rows_name>.parquet`, `rejects.jsonl` and `timings.parquet`.
The driver holds a lock on the file `.lock` during the run. Files of other programs are never changed. A directory with
the output of a different run is refused. The name of the parts directory is a digest of the plan. So a leftover process
of a different run writes to a different directory. A command copies inputs to a spool directory below the output
directory (`spool_directory`). At the end, the command adds a summary as JSON (`write_document`).
"""

import contextlib
import fcntl
import hashlib
import json
import os
import re
import shutil
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from assignor.errors import InputError
from operating_system.whole_files import input_errors
from spark_engine.batch import RESULT_FORMAT, RESULT_MARK
from spark_engine.batch.work import ChunkT, Plan

COMPUTE_MS = "compute_ms"
REJECTS_NAME = "rejects.jsonl"
TIMINGS_NAME = "timings.parquet"
TEMPORARY = ".tmp"
"""The suffix of incomplete files. During a run, the directory `.tmp` contains the spooled inputs."""
_LOCK, _PARTS, _SPOOL = ".lock", "parts", "spool-"
_SHOWN = 60
_URL = re.compile(r"[A-Za-z][\w+.-]+:")


class Finished(NamedTuple):
    """The numbers of rows and rejects of a finished run."""

    rows: int
    rejects: int


class OutputDirectory:
    """An output directory that this process has locked. Only `open_directory` creates an OutputDirectory."""

    def __init__(self, path: Path, plan: Mapping[str, object], has_timings: bool) -> None:
        self.path = path
        self._plan = dict(plan)
        self._has_timings = has_timings
        digest = hashlib.sha256(json.dumps(self._plan, sort_keys=True).encode()).hexdigest()[:12]
        self.parts = path / _PARTS / digest

    @property
    def rows_file(self) -> Path:
        return self.path / f"{self._plan['rows_name']}.parquet"

    @property
    def rejects_file(self) -> Path:
        return self.path / REJECTS_NAME

    @property
    def timings_file(self) -> Path | None:
        return self.path / TIMINGS_NAME if self._has_timings else None

    def finished(self) -> Finished | None:
        """Returns the numbers of rows and rejects of a finished run; None if the run is not finished. Raises InputError
        if a result file is missing.
        """
        counts = (_read_plan(self.path) or {}).get("finished")
        if not isinstance(counts, dict):
            return None
        for file in (self.rows_file, self.rejects_file, self.timings_file):
            if file is not None and not file.is_file():
                raise InputError(
                    f"the run is finished, but {file.name} is missing; --restart runs it again", str(self.path)
                )
        return Finished(counts["rows"], counts["rejects"])

    def finish(self, counts: Finished) -> None:
        """Marks the run as finished, and removes its parts."""
        self._write_plan(counts)
        self.remove_parts()

    def remove_parts(self) -> None:
        shutil.rmtree(self.path / _PARTS, ignore_errors=True)

    def begin(self) -> None:
        """Writes the plan of this run, and creates the directory of its parts."""
        for file in self.path.glob(f".*{TEMPORARY}"):
            if file.is_file():  # keep the directory of spooled inputs, because the present run uses it
                file.unlink(missing_ok=True)
        if _read_plan(self.path) is None:
            self._write_plan(None)
        self.parts.mkdir(parents=True, exist_ok=True)

    def check_same_run(self) -> None:
        """Raises InputError if this directory has the output of a different run."""
        found = _read_plan(self.path)
        if found is None:
            return
        if differences := _differences(_without_finished(found), self._plan):
            raise InputError(
                f"holds another run, which differs in {differences}; choose another --output, or discard that run with "
                "--restart",
                str(self.path),
            )

    def clear(self) -> None:
        """Removes the files that a run wrote to this directory, and no other files. Raises OSError if a file cannot be
        removed.
        """
        found = _read_plan(self.path)
        if found is None:
            return
        beside = found.get("beside")
        names = [f"{found.get('rows_name')}.parquet", *(beside if isinstance(beside, list) else ())]
        for name in (*names, REJECTS_NAME, TIMINGS_NAME):
            if Path(name).name == name:
                (self.path / name).unlink(missing_ok=True)
        if (self.path / _PARTS).exists():
            shutil.rmtree(self.path / _PARTS)
        self._write_plan(None)

    def _write_plan(self, finished: Finished | None) -> None:
        document = {"format": RESULT_FORMAT, **self._plan, "finished": None if finished is None else finished._asdict()}
        _write_json(self.path / RESULT_MARK, document)


@contextlib.contextmanager
def open_directory(path: Path, plan: Plan[ChunkT], *, restart: bool) -> Iterator[OutputDirectory]:
    """Opens the output directory for the run of `plan`. Creates the directory if it is missing. Locks the directory
    until the end of the block. `restart`: True to remove the files of an earlier run, even of a different plan. Raises
    InputError if the directory cannot be used.
    """
    check_no_url(path)
    path = path.absolute()
    with _usable(path):
        path.mkdir(parents=True, exist_ok=True)
        if _read_plan(path) is None:
            _check_nothing_foreign(path)  # check before a lock file is written to the directory
        lock = os.open(path / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        _lock(lock, path)
        output = OutputDirectory(path, _plan_document(plan), COMPUTE_MS in plan.work.schema.names)
        with _usable(path):
            if restart:
                output.clear()
            else:
                output.check_same_run()
            output.begin()
        yield output
    finally:
        os.close(lock)  # closing the file also releases the lock


def check_no_url(path: Path) -> None:
    """Raises InputError for a URL such as `s3://bucket`, which would become a local directory of that name."""
    if _URL.fullmatch(path.parts[0] if path.parts else "") and not Path(path.parts[0]).exists():
        raise InputError("is a URL; name a directory, which executors reach under the same path", str(path))


@contextlib.contextmanager
def _usable(path: Path) -> Iterator[None]:
    try:
        yield
    except (FileExistsError, NotADirectoryError) as fault:
        raise InputError("is not a directory; choose another --output", str(path)) from fault
    except OSError as fault:
        raise InputError(f"cannot be used: {fault.strerror or fault}; choose another --output", str(path)) from fault


def _lock(lock: int, path: Path) -> None:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = os.pread(lock, 20, 0).decode(errors="replace").strip() or "?"
        raise InputError(
            f"another run (process {holder}) works in it; wait for it, or choose another --output", str(path)
        ) from None
    except OSError as fault:
        raise InputError(f"cannot be locked: {fault.strerror}; choose another --output", str(path)) from fault
    os.ftruncate(lock, 0)
    os.pwrite(lock, f"{os.getpid()}\n".encode(), 0)


def _plan_document(plan: Plan[ChunkT]) -> dict[str, object]:
    """Returns the document that identifies a run. The values have the types that a JSON parser returns. So the document
    can be compared with the plan file of an earlier run.
    """
    document: dict[str, object] = json.loads(
        json.dumps(
            {
                "identity": plan.identity,
                "chunks": len(plan.chunks),
                "rows_name": plan.rows_name,
                "timing_columns": plan.timing_columns,
                "beside": plan.beside,
                "columns": {field.name: str(field.type) for field in plan.work.schema},
            }
        )
    )
    return document


def _read_plan(path: Path) -> dict[str, object] | None:
    """Returns the plan in the directory; None if the directory has no plan, or if another program wrote the plan
    file.
    """
    try:
        document = json.loads((path / RESULT_MARK).read_bytes())
    except (FileNotFoundError, ValueError):
        return None
    return document if isinstance(document, dict) and document.get("format") == RESULT_FORMAT else None


def _without_finished(document: dict[str, object]) -> dict[str, object]:
    return {key: value for key, value in document.items() if key not in ("format", "finished")}


def _check_nothing_foreign(path: Path) -> None:
    foreign = sorted(
        name for name in os.listdir(path) if name != _LOCK and not (name.startswith(".") and name.endswith(TEMPORARY))
    )
    if foreign:
        raise InputError(f"has files of another program ({', '.join(foreign[:3])}); choose another --output", str(path))


def _differences(found: Mapping[str, object], wanted: Mapping[str, object]) -> str:
    """Returns a text with the keys whose values differ. If the two values of a key are short, the text also has the
    values. Keys within `identity` are shown without the prefix `identity`.
    """
    flat_found, flat_wanted = _flat(found), _flat(wanted)
    texts = []
    for key in dict.fromkeys([*flat_found, *flat_wanted]):
        before, now = flat_found.get(key), flat_wanted.get(key)
        if before != now:
            texts.append(f"{key}{_both(json.dumps(before), json.dumps(now))}")
    return ", ".join(texts)


def _flat(document: Mapping[str, object]) -> dict[str, object]:
    identity = document.get("identity")
    rest = {key: value for key, value in document.items() if key != "identity"}
    return {**(identity if isinstance(identity, dict) else {}), **rest}


def _both(before: str, now: str) -> str:
    return f" (was {before}, now {now})" if len(before) + len(now) <= _SHOWN else ""


@contextlib.contextmanager
def spool_directory(output: Path) -> Iterator[Path]:
    """Creates a spool directory for this process below `output`, because executors can read `output`. First removes the
    spool directories of killed processes. At the end of the block, removes the spool directory of this process. Also
    removes the directory `output` if this function created it and it contains no files of a run. Raises InputError if
    the spool directory cannot be created.
    """
    check_no_url(output)
    parent = output.absolute() / TEMPORARY
    # the name has a UUID, because a process on another machine may have the same process id
    spool = parent / f"{_SPOOL}{uuid.uuid4().hex}"
    made = not parent.parent.exists()
    _remove_abandoned(parent)
    with _usable(output):
        spool.mkdir(parents=True)
        held = os.open(spool, os.O_RDONLY | os.O_CLOEXEC)
    try:
        # If the file system cannot lock directories, flock raises OSError here and in `_remove_abandoned`, which then
        # removes nothing.
        with contextlib.suppress(OSError):
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield spool
    finally:
        shutil.rmtree(spool, ignore_errors=True)
        os.close(held)
        with contextlib.suppress(OSError):
            parent.rmdir()  # raises OSError while another run has spool files in this directory
        if made:
            with contextlib.suppress(OSError):
                parent.parent.rmdir()  # raises OSError if files of a run are in this directory


def _remove_abandoned(parent: Path) -> None:
    """Removes spool directories of killed processes: the directories that no process has locked."""
    for spool in parent.glob(f"{_SPOOL}*"):
        with contextlib.suppress(OSError):
            held = os.open(spool, os.O_RDONLY | os.O_CLOEXEC)
            try:
                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(spool, ignore_errors=True)
            finally:
                os.close(held)


def write_document(file: Path, document: object) -> None:
    """Writes a JSON file. The file appears under its name only when it is complete. Raises InputError if the file
    cannot be written.
    """
    with input_errors("cannot be written", file):
        _write_json(file, document)


@contextlib.contextmanager
def replacing(file: Path) -> Iterator[Path]:
    """Yields a temporary path, to which the block writes. At the end of the block, the file at the temporary path
    replaces `file` atomically.
    """
    temporary = file.with_name(f".{file.name}{TEMPORARY}")
    try:
        yield temporary
        os.replace(temporary, file)
    finally:
        temporary.unlink(missing_ok=True)


def _write_json(file: Path, document: object) -> None:
    with replacing(file) as temporary:
        temporary.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
