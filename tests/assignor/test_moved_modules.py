"""Modules that have left the core: their old names say where they are. Public names are loaded when they are used."""

from importlib import import_module

import pytest

import assignor
from assignor.names.lazy_names import LazyNames

MOVED = {
    "assignor.access.tokens": "coordinator_client.access",
    "assignor.commands.console": "assignor_cli",
    "assignor.compare": "rebalance_analysis.compare",
    "assignor.coordinator_addresses": "coordinator_client.addresses",
    "assignor.coordinator_calls": "coordinator_client.calls",
    "assignor.measures": "rebalance_analysis.measures",
    "assignor.operating_system": "operating_system.processes",
    "assignor.program": "assignor_cli.program",
    "assignor.reading.lines": "rebalance_analysis.reading",
    "assignor.rerun": "rebalance_analysis.rerun",
    "assignor.simulate.forecasting": "rebalance_analysis.simulate",
    "assignor.topology.described.inferred": "kafka_groups.described",
    "assignor.story": "rebalance_analysis.history",
    "assignor.what_if.changes": "rebalance_analysis.what_if",
    "assignor.whole_files": "operating_system.whole_files",
    "spark_jobs.batch.running": "spark_engine.batch",
    "spark_jobs.replay.dataframe": "rebalance_analysis.replay",
    "spark_jobs.session": "spark_engine.session",
}


@pytest.mark.parametrize("old, new", MOVED.items())
def test_should_say_where_a_module_has_gone(old: str, new: str) -> None:
    import_module(new)
    import_module(old.partition(".")[0])
    with pytest.raises(ImportError, match=new):
        import_module(old)


def test_should_leave_names_alone_that_never_were() -> None:
    with pytest.raises(ModuleNotFoundError, match=r"No module named 'assignor\.nothing'"):
        import_module("assignor.nothing")


def test_should_list_and_keep_names_of_a_package_that_are_loaded_late() -> None:
    names = {"__name__": "assignor", "__spec__": assignor.__spec__}
    lazy = LazyNames(names)
    assert set(assignor.__all__) <= set(lazy.listed())
    assert lazy.load("TaskId") is names["TaskId"]
