"""A Sphinx extension: readable signatures.

Types that no page of this site describes are shown without a link. The inventories of other sites, with which Sphinx
could link to them, come from the network, and this site is built without one. A name that exists nowhere is still a
warning.
"""

from functools import cache
from importlib import import_module
from typing import Any

from sphinx.application import Sphinx
from sphinx.util.typing import ExtensionMetadata


def setup(app: Sphinx) -> ExtensionMetadata:
    app.connect("missing-reference", _without_link)
    app.connect("autodoc-process-signature", _readable)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


@cache
def exists(name: str) -> bool:
    """Whether `name` can be imported. `tuple[str` counts as `tuple`, and a name without a dot as a type variable."""
    dotted = name.lstrip("~").partition("[")[0]
    if dotted.isidentifier():
        return True
    module, _, attribute = dotted.rpartition(".")
    try:
        return hasattr(import_module(module), attribute)
    except ImportError:
        return False


def readable(signature: str) -> str:
    """Show a default that is created for each object as `...`: Sphinx cannot read the `<factory>` of a dataclass."""
    return signature.replace("<factory>", "...")


def _readable(_app: Sphinx, _what: str, _name: str, _object: Any, _options: Any, given: str | None, answer: Any) -> Any:
    return None if given is None else (readable(given), answer)


def _without_link(app: Sphinx, env: Any, node: Any, text: Any) -> Any:
    return text if node.get("refdomain") == "py" and exists(node["reftarget"]) else None
