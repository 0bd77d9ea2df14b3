"""A Spark driver that counts records by key on two executors, in one of three ways; `spark_row.py` starts it.

Arguments: the way, the input (a directory of Parquet files, or the address of an embedded log), a directory of its own,
how many records there are, and how many a micro-batch takes. It says `records N` each time that the results of so many
records are committed. It ends when its stdin ends.
"""

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pandas as pd
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle, TimerValues

from benchmarks.jvm_runtime.cells import CACHES, COUNT, TYPICAL_KEYS
from benchmarks.jvm_runtime.input_records import PARTITIONS, partitions, topic_of_events
from benchmarks.jvm_runtime.spark_row import EXECUTORS, FILES_A_BATCH, IN_PANDAS, OURS, OUTPUT
from benchmarks.jvm_runtime.topologies import topology
from spark_engine.session.spark_session import spark_session
from spark_jobs.workers import run
from spark_jobs.workers.spark_confs import EXECUTOR_CONF
from streams_runtime import Application, CoordinatorProcess, ProcessingGuarantee, StreamsConfig, open_log

MASTER = f"local-cluster[{EXECUTORS},1,1024]"
_APPLICATION_ID = "spark-count"
_STATE_STORE = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
_STREAMING: Mapping[str, str] = {
    "spark.sql.streaming.stateStore.providerClass": _STATE_STORE,
    "spark.sql.shuffle.partitions": str(PARTITIONS),
    "spark.ui.enabled": "false",
}
_LOOK_S = 0.05


class CountingProcessor(StatefulProcessor):
    """The count so far in the state, and a row for each key of a micro-batch. `rows` are data frames."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._count = handle.getValueState("count", "count long")

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: TimerValues) -> Iterator[pd.DataFrame]:
        before = self._count.get()
        count = (0 if before is None else before[0]) + sum(map(len, rows))
        self._count.update((count,))
        yield pd.DataFrame({"key": [key[0]], "count": [count]})

    def close(self) -> None:
        pass


def counted_in_pandas(events: DataFrame) -> DataFrame:
    return events.groupBy("key").transformWithStateInPandas(
        CountingProcessor(), outputStructType="key binary, count long", outputMode="Update", timeMode="None"
    )


def counted_by_spark(events: DataFrame) -> DataFrame:
    return events.groupBy("key").count()


def stream(
    spark: SparkSession, count: Callable[[DataFrame], DataFrame], source: str, directory: Path, batch_records: int
) -> None:
    """Micro-batches without a pause; the results of each are a directory of Parquet files."""

    def write(batch: DataFrame, number: int) -> None:
        batch.write.parquet(str(directory / OUTPUT / str(number)))

    events = spark.readStream.schema("key binary, value binary").option("maxFilesPerTrigger", FILES_A_BATCH)
    counts = count(events.parquet(source)).writeStream.outputMode("update").foreachBatch(write)
    query = counts.option("checkpointLocation", str(directory / "checkpoint")).trigger(availableNow=True).start()
    said = 0
    while query.isActive or said == 0:
        done = sum(1 for _ in (directory / "checkpoint" / "commits").glob("[0-9]*")) * batch_records
        if done > said:
            said = done
            print(f"records {done}", flush=True)
        failure = query.exception()
        if failure is not None:
            raise failure
        time.sleep(_LOOK_S)
    done = sum(1 for _ in (directory / "checkpoint" / "commits").glob("[0-9]*")) * batch_records
    print(f"records {done}", flush=True)


def stream_threads(spark: SparkSession, servers: str, directory: Path, records: int) -> None:
    """Two instances with one stream thread each, exactly-once, with Kafka's default record cache: as Spark does, it
    sends a result for each key and commit.
    """
    configs = StreamsConfig(
        _APPLICATION_ID,
        servers,
        directory / "state",
        ProcessingGuarantee.EXACTLY_ONCE_V2,
        statestore_cache_max_bytes=CACHES["default"],
    )
    built = topology(COUNT, topic_of_events(TYPICAL_KEYS), "", OUTPUT)
    settings = {"cluster.bootstrap.servers": servers, "group.initial.rebalance.delay.ms": 3_000}
    with ExitStack() as stack:
        coordinator = stack.enter_context(CoordinatorProcess(directory / "coordinator", settings))
        log = stack.enter_context(closing(open_log(servers)))
        workers = run(spark, Application(built, configs), instances=EXECUTORS, coordinator_url=coordinator.url)
        stack.callback(workers.stop)
        said = 0
        while said < records:
            committed = log.committed_offsets(_APPLICATION_ID, partitions(topic_of_events(TYPICAL_KEYS)))
            done = sum(each.offset for each in committed.values())
            if done > said:
                said = done
                print(f"records {done}", flush=True)
            workers.wait(_LOOK_S)
        sys.stdin.read()


def main() -> None:
    way, source, directory, records, batch_records = sys.argv[1:]
    own = Path(directory)
    conf = {**EXECUTOR_CONF, "spark.ui.enabled": "false"} if way == OURS else _STREAMING
    with spark_session(MASTER, _APPLICATION_ID, conf=conf) as spark:
        if way == OURS:
            stream_threads(spark, source, own, int(records))
        else:
            count = counted_in_pandas if way == IN_PANDAS else counted_by_spark
            stream(spark, count, source, own, int(batch_records))
            sys.stdin.read()


if __name__ == "__main__":
    main()
