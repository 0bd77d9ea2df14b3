"""Instances of an application on Spark executors: `run(spark, application, instances=3)`."""

from spark_jobs.workers.running import run

__all__ = ["run"]
