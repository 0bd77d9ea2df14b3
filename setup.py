"""What of the checkout is installed, under which name, and compiled; everything else about the package is in
pyproject.toml.

The packages keep their names, but `migrations`: it stands at the top of the checkout, and inside of the coordinator's
package once it is installed, because any other program may have a `migrations` of its own.

With ASSIGNOR_COMPILE=1, as `make setup` has it, Cython makes machine code of the modules in which a large rebalance
spends most of its time, of the one that reads and writes the records of Kafka's batches, and of the record cache. It
is the same source; a `.pxd` beside a module gives C types to its names. Without Cython, a C compiler or that variable
there is nothing to compile, and Python runs the modules as they are, with equal results.
The wheel is made without, so that one serves every Python.
"""

import os

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
COMPILED = (
    "assignor.clients.client_metadata",
    "assignor.clients.client_state",
    "assignor.java.order",
    "assignor.task_assignors.constrained_priority_set",
    "assignor.task_assignors.task_movement",
    "assignor.task_assignors.working_state",
    "assignor.pipeline.consumer_assignments",
    "assignor.pipeline.tasks_to_threads",
    "kafka_client.record_batches.batch_rows",
    "streams_runtime.logs.partitioner",
    "streams_runtime.state_stores.thread_cache",
)


def compiled() -> list[Extension]:
    """None where Cython is missing or nobody asked."""
    if os.environ.get("ASSIGNOR_COMPILE") != "1":
        return []
    try:
        from Cython.Build import cythonize
    except ImportError:
        return []
    # annotations stay what they are to Python: a list may be any sequence of its kind, an int has no limit
    directives = {"annotation_typing": False, "language_level": 3}
    modules = [Extension(name, [f"{name.replace('.', '/')}.py"]) for name in COMPILED]
    found: list[Extension] = cythonize(modules, build_dir="build/compiled", compiler_directives=directives, quiet=True)
    for extension in found:
        extension.optional = True  # without a C compiler, a warning
        extension.extra_compile_args = ["-w"]  # nobody here can mend what a compiler says of Cython's code
    return found


setup(
    packages=[
        *find_packages(include=[pattern for name in PACKAGES for pattern in (name, f"{name}.*")]),
        *(f"coordinator_api.{name}" for name in find_packages(include=["migrations", "migrations.*"])),
    ],
    package_dir={"coordinator_api.migrations": "migrations"},
    ext_modules=compiled(),
)
