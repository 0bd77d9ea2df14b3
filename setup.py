"""Tells setuptools the packages to install, the names of the packages, and the modules to compile. All other data about
the package is in pyproject.toml.

All packages except `migrations` keep their names. The package `migrations` is at the top of the checkout. `migrations`
is installed inside the coordinator's package, because other programs may have a package `migrations` too.

If ASSIGNOR_COMPILE=1 is set, as in `make setup`, Cython compiles several modules. A large rebalance spends most of its
time in some of the compiled modules. The other compiled modules are on the path of each record: the converter of record
batches, two hashes, the queues and the output records of a task, some formats, and the state stores. No compiled module
defines a receiver, because the runtime finds a failed node by the code object of its receiver, and a compiled function
has none. Cython compiles the Python source; a `.pxd` file beside a module gives C types to the module's names. If
Cython, a C compiler or ASSIGNOR_COMPILE is missing, nothing is compiled. Python then runs the modules uncompiled, with
equal results.
The wheel is built without ASSIGNOR_COMPILE, so one wheel works with every version of Python.
"""

import os
from pathlib import Path

from setuptools import Extension, find_packages, setup

PACKAGES = (
    "assignor",
    "assignor_cli",
    "coordinator_api",
    "coordinator_client",
    "kafka_client",
    "kafka_groups",
    "operating_system",
    "rebalance_analysis",
    "spark_engine",
    "spark_jobs",
    "streams_runtime",
)
STATE_STORES = Path("streams_runtime/state_stores")
COMPILED = (
    "assignor.clients.client_metadata",
    "assignor.clients.client_state",
    "assignor.java.order",
    "assignor.java.priority_queue",
    "assignor.task_assignors.constrained_priority_set",
    "assignor.task_assignors.task_movement",
    "assignor.task_assignors.working_state",
    "assignor.pipeline.consumer_assignments",
    "assignor.pipeline.tasks_to_threads",
    "kafka_client.record_batches.batch_rows",
    "streams_runtime.common.murmur3",
    "streams_runtime.dsl.subscriptions",
    "streams_runtime.dsl.windows",
    "streams_runtime.logs.partitioner",
    "streams_runtime.logs.record_limits",
    *(f"streams_runtime.state_stores.{path.stem}" for path in sorted(STATE_STORES.glob("[a-z]*.py"))),
    "streams_runtime.tasks.current_record",
    "streams_runtime.tasks.needed_changes",
    "streams_runtime.tasks.output_records",
    "streams_runtime.tasks.partition_group",
    "streams_runtime.tasks.record_queue",
)


def compiled() -> list[Extension]:
    """Returns the extension modules to compile. The result is empty if Cython is missing, or if ASSIGNOR_COMPILE is not
    1.
    """
    if os.environ.get("ASSIGNOR_COMPILE") != "1":
        return []
    try:
        from Cython.Build import cythonize
    except ImportError:
        return []
    # annotations must not become C types: a value annotated as list may be another sequence, and an int may exceed C's
    # int
    directives = {"annotation_typing": False, "language_level": 3}
    modules = [Extension(name, [f"{name.replace('.', '/')}.py"]) for name in COMPILED]
    found: list[Extension] = cythonize(modules, build_dir="build/compiled", compiler_directives=directives, quiet=True)
    for extension in found:
        extension.optional = True  # without a C compiler, setuptools only warns
        extension.extra_compile_args = ["-w", "-g0"]  # no warnings: they are about Cython's generated code
    return found


setup(
    packages=[
        *find_packages(include=[pattern for name in PACKAGES for pattern in (name, f"{name}.*")]),
        *(f"coordinator_api.{name}" for name in find_packages(include=["migrations", "migrations.*"])),
    ],
    package_dir={"coordinator_api.migrations": "migrations"},
    ext_modules=compiled(),
)
