"""Results in each format, once and watched."""

import contextlib
import json
import os
import pty
import termios
from collections.abc import Iterator, Sequence

import pytest
import yaml

from assignor.errors import InputError, KafkaError
from assignor_cli.output import Format, ResultOutput, data_text, output_from_options, show, view_of
from assignor_cli.tables import View

DOCUMENT = {"id": "smoke.1", "Ünï": ["0_1", None, 1.5, True], "empty": {}, "colon": "a: b", "no": "no"}


def answers(results: Sequence[object]) -> Iterator[object]:
    """One after the other, and Ctrl-C at the end."""
    yield from results
    raise KeyboardInterrupt


class Asked:
    def __init__(self, *results: object) -> None:
        self._results = answers(results)

    def __call__(self) -> object:
        result = next(self._results)
        if isinstance(result, Exception):
            raise result
        return result


def read_all(primary: int) -> str:
    """What was written to the terminal, whose other end is closed."""
    written = b""
    with contextlib.suppress(OSError), os.fdopen(primary, "rb", buffering=0) as terminal:
        while some := terminal.read(65536):
            written += some
    return written.decode()


def as_text(document: object, view: View) -> str:
    return f"it is {document}"


def test_should_print_data_that_can_be_read_back(capsys: pytest.CaptureFixture[str]) -> None:
    for format in (Format.JSON, Format.YAML, Format.YAML):
        show(DOCUMENT, "never", format)
    first, *rest = capsys.readouterr().out.splitlines()

    assert json.loads(first) == DOCUMENT
    assert list(yaml.safe_load_all("\n".join(rest))) == [DOCUMENT, DOCUMENT]
    assert data_text("word", Format.YAML) == "--- word"


def test_should_print_text_for_the_view(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "111")
    show({}, "as it is", Format.TEXT)
    show({}, lambda view: f"{view.width} {view.wide}", Format.TEXT)
    show({}, lambda view: f"{view.width} {view.wide}", Format.WIDE)

    assert capsys.readouterr().out.splitlines() == ["as it is", "111 False", "111 True"]


def test_should_take_a_pipe_for_80_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    with open(os.devnull, "w") as no_terminal:
        monkeypatch.setattr("sys.stdout", no_terminal)
        assert view_of(Format.TEXT).width == 80
        for columns, width in (("3", 40), ("nonsense", 80), ("0", 80)):
            monkeypatch.setenv("COLUMNS", columns)
            assert view_of(Format.TEXT).width == width


def test_should_be_as_wide_as_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    primary, secondary = pty.openpty()
    termios.tcsetwinsize(secondary, (24, 97))
    with os.fdopen(secondary, "w") as terminal:
        monkeypatch.setattr("sys.stdout", terminal)
        assert view_of(Format.TEXT).width == 97
    os.close(primary)


def test_should_print_again_only_what_changed_when_watched(capsys: pytest.CaptureFixture[str]) -> None:
    ResultOutput(interval_s=0.001).show(Asked("a", "a", KafkaError("gone"), KafkaError("gone"), "b", "b"), as_text)
    printed = capsys.readouterr()

    assert printed.out == "it is a\nit is b\n"
    assert printed.err == "error: gone\n", "once, not at every look"


def test_should_print_one_line_of_json_for_every_change(capsys: pytest.CaptureFixture[str]) -> None:
    ResultOutput(Format.JSON, 0.001).show(Asked({"a": 1}, {"a": 1}, {"a": 2}), as_text)

    assert capsys.readouterr().out == '{"a":1}\n{"a":2}\n'


def test_should_fail_when_the_first_look_fails() -> None:
    with pytest.raises(KafkaError):
        ResultOutput(interval_s=0.001).show(Asked(KafkaError("gone")), as_text)


def test_should_repaint_a_terminal_and_leave_the_last_result(monkeypatch: pytest.MonkeyPatch) -> None:
    primary, secondary = pty.openpty()
    with os.fdopen(secondary, "w") as terminal:
        monkeypatch.setattr("sys.stdout", terminal)
        monkeypatch.setenv("TERM", "xterm")
        ResultOutput(interval_s=0.001).show(Asked("a", KafkaError("gone"), "b"), as_text)
    written = read_all(primary)

    screen, _, after = written.partition("\x1b[?1049l")
    assert screen.startswith("\x1b[?1049h")
    assert "No news since" in screen
    assert "gone" in screen
    assert "it is b" in after, "the screen is given back, and what was shown last stays"
    assert "it is a" not in after


@pytest.mark.parametrize(("watch", "interval"), [(False, 1.0), (True, 0.0), (True, float("nan"))])
def test_should_refuse_an_interval_that_means_nothing(watch: bool, interval: float) -> None:
    with pytest.raises(InputError, match="--interval"):
        output_from_options(watch=watch, interval=interval)
    assert output_from_options(watch=True) == ResultOutput(Format.TEXT, 2.0)
    assert output_from_options(format=Format.YAML) == ResultOutput(Format.YAML, None)
