"""What can be imported from `streams_runtime` itself: every name, but only when it is used."""

import subprocess
import sys

import pytest

import streams_runtime


@pytest.mark.parametrize("name", sorted(streams_runtime._LAZY.home_of))
def test_should_give_every_public_name(name: str) -> None:
    assert getattr(streams_runtime, name) is not None
    assert name in dir(streams_runtime)


def test_should_say_what_is_not_there() -> None:
    with pytest.raises(AttributeError, match="module 'streams_runtime' has no attribute 'KafkaStreams'"):
        _ = streams_runtime.KafkaStreams


def test_should_load_nothing_before_it_is_used() -> None:
    program = "import sys, streams_runtime; print(*(m for m in sys.modules if m.startswith(('streams_', 'assignor'))))"
    printed = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout

    names = {f"assignor.names{module}" for module in ("", ".lazy_names")}
    assert set(printed.split()) == {"streams_runtime", "assignor", *names}
