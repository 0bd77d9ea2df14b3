# %% [markdown]
# A notebook-like Spark driver: instances run as Spark tasks, and the results become a DataFrame. Open it in an editor
# that knows `# %%` cells, or run it: python examples/spark_notebook.py

# %%
import os
import sys
import tempfile
from pathlib import Path

from count_words import LINES, application
from pyspark.sql import SparkSession
from pyspark.sql.functions import desc

from spark_jobs.workers import run
from streams_runtime import (
    LONG,
    STRING,
    CoordinatorClient,
    CoordinatorProcess,
    NewTopic,
    RecordProducer,
    open_log,
    read_topic,
)

directory = tempfile.mkdtemp()
app = application(directory)
address = app.configs.bootstrap_servers

# %% Some data. On a cluster, the log is Kafka, and somebody else fills the topic.
log = open_log(address)
log.create_topics([NewTopic("lines", partitions=4), NewTopic("word-counts", partitions=4)])
with RecordProducer(log, STRING, STRING) as lines:
    for number in range(3_000):
        lines.send("lines", str(number), LINES[number % len(LINES)])

# %% The coordinator. On a cluster it is `assignor serve`, somewhere the executors reach.
coordinator = CoordinatorProcess(Path(directory), {"cluster.bootstrap.servers": address})
coordinator.start()

# %% Spark, as in any notebook, and three instances with two threads each. They run until they are stopped.
# Each takes a slot of Spark for as long; the fourth slot is for the DataFrame below.
os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # the Python in which this is installed
# no bars of progress: instances run until they are stopped
builder = SparkSession.builder.master("local[4]").config("spark.ui.showConsoleProgress", "false")
spark = builder.appName("word counts").getOrCreate()
spark.sparkContext.setLogLevel("ERROR")
workers = run(spark, app, instances=3, threads=2, coordinator_url=coordinator.url)

# %% Which task is where? Run this cell again and again, and see the group settle.
client = CoordinatorClient(coordinator.url)
while len((group := client.describe(app.id))["members"]) < 6 or group["state"] != "Stable":
    workers.wait(0.2)  # raises when their Spark job has failed
for member in group["members"]:
    print(member["client_id"], *member["active"])

# %% The results so far, as a DataFrame. A count is a change: the newest one of a word is its number.
expected = {word: sum(line.split().count(word) for line in LINES) * 1_000 for word in " ".join(LINES).split()}
counts: dict[str | None, int | None] = {}
while counts != expected:
    workers.wait(0.2)
    counts = {record.key: record.value for record in read_topic(log, "word-counts", STRING, LONG)}
frame = spark.createDataFrame(list(counts.items()), "word string, count long")
frame.orderBy(desc("count"), "word").show()

# %% The end: the instances commit, write their checkpoints and leave, and then Spark may go.
ends = workers.stop()
print("instances ended:", ", ".join(str(end.state) for end in ends))
spark.stop()
coordinator.stop()
