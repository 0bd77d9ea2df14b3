"""Where things are in the checkout that the tests run in."""

from pathlib import Path

ROOT = Path(__file__).parents[1]
VECTORS = ROOT / "tests" / "vectors"
RECORDINGS = VECTORS / "recordings"
SCENARIOS = ROOT / "tests" / "scenarios"
