"""The code on the how-to pages about the runtime does what the pages say: their tests pass, all in one run."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.checkout import ROOT
from tests.streams_runtime.serdes.fake_schema_registry import fake_schema_registry

PAGES = ("use-avro-or-protobuf.md",)
TIMEOUT_S = 120.0
_BLOCK = re.compile(r"^```python\n# (?P<name>\w+\.py)\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL)


def test_should_pass_the_tests_on_the_pages(tmp_path: Path) -> None:
    for page in PAGES:
        text = (ROOT / "docs" / "how-to" / page).read_text(encoding="utf-8")
        blocks = _BLOCK.findall(text)
        assert len(blocks) == text.count("```python"), f"{page}: every block of code begins with the name of its file"
        for name, code in blocks:
            assert not (tmp_path / name).exists(), f"{page}: another page has a {name} already"
            (tmp_path / name).write_text(code, encoding="utf-8")

    with fake_schema_registry() as registry:
        ran = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(tmp_path), str(tmp_path)],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(ROOT), "SCHEMA_REGISTRY_URL": registry.url},
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
        )

    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert re.search(rf"^{len(list(tmp_path.glob('test_*.py')))} passed", ran.stdout, re.MULTILINE), ran.stdout
