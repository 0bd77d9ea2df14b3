"""The public names of a package, as directives for autodoc, by what a reader wants to do with them."""

from __future__ import annotations

import inspect
import re
from collections import defaultdict
from collections.abc import Mapping
from importlib import import_module
from types import GenericAlias
from typing import get_origin

from sphinx.errors import ExtensionError

from docs._ext.markdown import fenced

SECTIONS: dict[str, Mapping[str, tuple[str, ...]]] = {
    "streams_runtime": {
        "Build a topology": ("streams_runtime.dsl", "streams_runtime.processors.topology"),
        "Processors": ("streams_runtime.processors.api", "streams_runtime.tasks.exception_handling"),
        "Stores": ("streams_runtime.state_stores",),
        "Serdes": ("streams_runtime.serdes", "streams_runtime.serdes.schema_registry"),
        "Applications and their configs": ("streams_runtime.application", "streams_runtime.configs"),
        "Run instances": (
            "streams_runtime.local_run.local_run",
            "streams_runtime.local_run.coordinator_process",
            "streams_runtime.streams_instance",
            "streams_runtime.instance_states",
            "streams_runtime.restore.restore_listener",
            "streams_runtime.restore.progress",
            "streams_runtime.membership.coordinator_client",
            "streams_runtime.membership.group_definition",
        ),
        "Topics and records": (
            "streams_runtime.record_producer",
            "streams_runtime.topic_reading",
            "streams_runtime.records",
            "streams_runtime.logs.opening",
            "streams_runtime.logs.base",
            "assignor.types",
        ),
        "Tests": ("streams_runtime.testing.topology_test_driver", "streams_runtime.testing.topology_test_topics"),
        "Errors": ("streams_runtime.errors", "assignor.errors"),
    },
    "assignor": {
        "Run a rebalance": ("assignor.pipeline", "assignor.snapshot", "assignor.configs"),
        "What a rebalance works on": ("assignor.cluster", "assignor.topology.group_topology", "assignor.types"),
        "Read and write recordings": (
            "assignor.recording.rebalance",
            "assignor.recording.placement",
            "assignor.recording.written",
            "assignor.topology.internal_topics",
        ),
        "Reasons": ("assignor.explain",),
        "Write a task assignor": ("assignor.task_assignors.base",),
        "Errors": ("assignor.errors",),
    },
    "spark_jobs.workers": {
        "Run instances on Spark": ("spark_jobs.workers.running", "spark_jobs.workers.spark_confs"),
    },
}
"""Headings of a package's page, and under each the modules whose public names stand there."""
_OPTIONS = "   :members:\n   :undoc-members:\n   :member-order: bysource\n"


def public_names(package: str) -> str:
    """Autodoc's directives for all names of `package.__all__`. Raises ExtensionError for a name without a heading."""
    module = import_module(package)
    homes: dict[str, str] = getattr(module, "_HOME_OF", {})
    by_home: dict[str, list[str]] = defaultdict(list)
    for name in sorted(module.__all__):
        found = getattr(module, name)
        home = homes.get(name) or found.__module__
        by_home[home].append(_directive(package, name, found, home))
    parts = []
    for title, modules in SECTIONS[package].items():
        directives = [directive for home in modules for directive in by_home.pop(home, ())]
        parts.append(f"## {title}\n\n{fenced(chr(10).join(directives), '{eval-rst}')}")
    if by_home:
        raise ExtensionError(f"{package}: there is no heading for the public names of {', '.join(sorted(by_home))}")
    return "\n".join(parts)


def _directive(package: str, name: str, found: object, home: str) -> str:
    options = (
        "" if home.partition(".")[0] == package.partition(".")[0] else "   :no-index:\n"
    )  # it is indexed on its own package's page
    if isinstance(found, type) and not isinstance(found, GenericAlias):
        return f".. autoclass:: {package}.{name}\n{options}{'' if issubclass(found, tuple) else _OPTIONS}"
    if inspect.isfunction(found):
        return f".. autofunction:: {package}.{name}\n{options}"
    if get_origin(found) is not None:  # the name of a type, which has no docstring of its own
        return f".. py:data:: {package}.{name}\n{options}\n   The type ``{_short(found)}``.\n"
    return f".. autodata:: {package}.{name}\n{options}   :no-value:\n"


def _short(alias: object) -> str:
    return re.sub(r"(?:\w+\.)+(?=\w)", "", str(alias))
