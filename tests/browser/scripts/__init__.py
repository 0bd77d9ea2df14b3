"""The scripts that tests run in a page, each a file of JavaScript."""

from importlib.resources import files


def script(name: str) -> str:
    return files(__name__).joinpath(f"{name}.js").read_text(encoding="utf-8")
