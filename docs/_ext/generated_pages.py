"""A Sphinx extension: it generates parts of pages from the code when the site is built.

A page has a comment `<!-- generated: NAME -->`, which a git forge does not show. Before Sphinx reads the page, the
comment is replaced by the Markdown that the function of that name returns. Nothing that is generated is committed, so
nothing that is generated can be out of date.
"""

import re
from collections.abc import Callable, Mapping
from functools import partial

from sphinx.application import Sphinx
from sphinx.errors import ExtensionError
from sphinx.util.typing import ExtensionMetadata

from docs._ext.command_pages import command_reference
from docs._ext.config_tables import config_prefixes, coordinator_settings, placement_configs, runtime_configs
from docs._ext.http_calls import coordinator_calls
from docs._ext.kafka_counterparts import kafka_names, missing_names
from docs._ext.metric_tables import instance_metrics, service_metrics
from docs._ext.public_names import public_names

PARTS: Mapping[str, Callable[[], str]] = {
    "runtime configs": runtime_configs,
    "placement configs": placement_configs,
    "config prefixes": config_prefixes,
    "coordinator settings": coordinator_settings,
    "commands": command_reference,
    "coordinator calls": coordinator_calls,
    "service metrics": service_metrics,
    "instance metrics": instance_metrics,
    "names of assignor": partial(public_names, "assignor"),
    "names of assignor.assignment": partial(public_names, "assignor.assignment"),
    "names of streams_runtime": partial(public_names, "streams_runtime"),
    "names of spark_jobs": partial(public_names, "spark_jobs.workers"),
    "names of Kafka that are missing": missing_names,
    "names of Kafka": kafka_names,
}
_COMMENT = re.compile(r"^<!-- generated: (?P<name>[\w ]+) -->$", re.MULTILINE)


def setup(app: Sphinx) -> ExtensionMetadata:
    app.connect("source-read", _fill_in)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def filled_in(text: str, where: str) -> str:
    """`text` with its comments replaced. Raises ExtensionError for an unknown name."""

    def part(found: re.Match[str]) -> str:
        name = found["name"]
        if name not in PARTS:
            raise ExtensionError(f"{where}: nothing is generated for {name!r}; there are {', '.join(sorted(PARTS))}")
        return PARTS[name]()

    return _COMMENT.sub(part, text)


def _fill_in(app: Sphinx, docname: str, source: list[str]) -> None:
    source[0] = filled_in(source[0], docname)
