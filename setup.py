"""What of the checkout is installed, and under which name; everything else about the package is in pyproject.toml.

The packages keep their names, but `migrations`: it stands at the top of the checkout, and inside of the coordinator's
package once it is installed, because any other program may have a `migrations` of its own.
"""

from setuptools import find_packages, setup

PACKAGES = ("assignor", "coordinator_api", "kafka_client", "kafka_groups", "spark_jobs", "streams_runtime")

setup(
    packages=[
        *find_packages(include=[pattern for name in PACKAGES for pattern in (name, f"{name}.*")]),
        *(f"coordinator_api.{name}" for name in find_packages(include=["migrations", "migrations.*"])),
    ],
    package_dir={"coordinator_api.migrations": "migrations"},
)
