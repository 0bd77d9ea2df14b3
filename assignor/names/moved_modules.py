"""The new names of moved modules. The import of an old name raises an ImportError that contains the new name.

A package with moved modules appends an entry to its `__path__`. This entry of `__path__` is not a directory. If no
directory contains the requested module of the package, Python calls the finder of the appended entry.
"""

import sys
from collections.abc import Mapping, MutableSequence
from importlib.machinery import ModuleSpec
from types import ModuleType

MOVED_FROM_THE_CORE = {
    "assignor.access": "coordinator_client.access and operating_system.private_files",
    "assignor.cluster": "assignor.topology.cluster",
    "assignor.commands": "rebalance_analysis.commands and assignor_cli.app",
    "assignor.compare": "rebalance_analysis.compare",
    "assignor.coordinator_addresses": "coordinator_client.addresses",
    "assignor.coordinator_calls": "coordinator_client.calls",
    "assignor.decisions": "assignor.task_assignors.decisions",
    "assignor.figures": "rebalance_analysis.figures",
    "assignor.lazy_names": "assignor.names.lazy_names",
    "assignor.legal_names": "assignor.names.legal_names",
    "assignor.measures": "rebalance_analysis.measures",
    "assignor.near_names": "assignor.names.near_names",
    "assignor.operating_system": "operating_system.processes",
    "assignor.pins": "assignor.configs.pins",
    "assignor.printable": "assignor.names.printable",
    "assignor.program": "assignor_cli.program",
    "assignor.reading": "rebalance_analysis.reading",
    "assignor.rerun": "rebalance_analysis.rerun",
    "assignor.short_reasons": "rebalance_analysis.presentation.reasons",
    "assignor.simulate": "rebalance_analysis.simulate",
    "assignor.snapshot": "assignor.pipeline.snapshot",
    "assignor.steering": "assignor.task_assignors.steering",
    "assignor.story": "rebalance_analysis.history",
    "assignor.threads": "assignor.pipeline",
    "assignor.what_if": "rebalance_analysis.what_if",
    "assignor.whole_files": "operating_system.whole_files",
}
MOVED_IN_THE_RUNTIME = {
    "streams_runtime.application": "streams_runtime.instance.application",
    "streams_runtime.reporting": "streams_runtime.common",
    "streams_runtime.restore": "streams_runtime.instance.restore",
    "streams_runtime.task_manager": "streams_runtime.instance",
    "streams_runtime.testing": "streams_runtime.local_run",
    "streams_runtime.threads": "streams_runtime.instance",
}
MOVED_FROM_TOPOLOGY = {"assignor.topology.described": "kafka_groups.described"}


class _MovedModules:
    """The finder for one entry of a package's `__path__`. `new_names`: the new name of each moved module, by old
    name.
    """

    def __init__(self, new_names: Mapping[str, str]) -> None:
        self._new_names = new_names

    def find_spec(self, fullname: str, target: ModuleType | None = None) -> ModuleSpec | None:
        """Raises ImportError with the new name of a moved module. Returns None for a module that has not moved."""
        if new_name := self._new_names.get(fullname):
            raise ImportError(f"{fullname} is now {new_name}", name=fullname)
        return None


def name_new_modules(package_path: MutableSequence[str], new_names: Mapping[str, str]) -> None:
    """Installs the finder of moved modules for a package, in this process only. `package_path`: the package's
    `__path__`.
    """
    entry = f"moved modules, such as {next(iter(new_names))}"

    def finder_of(path_entry: str) -> _MovedModules:
        if path_entry != entry:
            raise ImportError  # after an ImportError, Python calls the next path hook
        return _MovedModules(new_names)

    sys.path_hooks.append(finder_of)
    package_path.append(entry)
