"""The meaning of each config of an application, in a sentence or two: the text of docs/reference/configs.md.

A config that has no text here, and a text that has no config, fail a test. Where the meaning differs from Kafka's, the
text says so. Properties of Kafka's clients are described in docs/kafka/client-settings.md and docs/kafka/log.md.
"""

RUNTIME: dict[str, str] = {
    "application.id": "The name of the application. It is the name of the group, and the beginning of the names of "
    "its internal topics and of its directories.",
    "bootstrap.servers": "Where the records are: `host:port,...` of Kafka, `embedded:` and an absolute directory for "
    "the log on disk, or `memory:` and a name for a log within one process. A power loss, not the end of a "
    "process, may take the last commits of a log on disk; with `?synchronous=FULL` behind the directory it takes none.",
    "state.dir": "Where the stores, checkpoints and locks of this process are. A relative path begins at the working "
    "directory.",
    "processing.guarantee": "`exactly_once_v2` commits results, changelogs and offsets in one transaction.",
    "commit.interval.ms": "How often a task commits. Without it: 30000, or 100 under exactly-once.",
    "linger.ms": "How long a record that was sent may wait for others to be written with it, on any log. It waits only "
    "while its thread has more records to process. Under exactly-once it is seen at the commit.",
    "num.stream.threads": "How many stream threads an instance starts. Each is one member of the group.",
    "max.task.idle.ms": "How long a task waits for records of a partition that has none, so that it can take records "
    "in the order of their timestamps. -1 never waits.",
    "task.timeout.ms": "How long a task may make no progress because the log does not answer. Then its thread fails.",
    "statestore.cache.max.bytes": "How much the record caches of an instance may hold, shared equally by its stream "
    "threads. Stores with `caching`, which tables and windows have, write, log and forward a changed key once, at a "
    "commit or when the cache is full. 0 switches it off: every update is written and forwarded by itself.",
    "enable.transactional.statestores": "Whether changes of a RocksDB store stay in memory until their task commits, "
    "and then become durable together with their changelog offset. A process that is killed then leaves a committed "
    "state. With `false`, changes are written in between, and exactly-once deletes the state after a kill and restores "
    "all of it. Kafka 4.4 has `false` as its default.",
    "statestore.uncommitted.max.bytes": "How much memory the uncommitted changes of an instance may take, shared "
    "equally by its stream threads. A thread that has more commits early. -1: no limit.",
    "state.checkpoint.file": "Whether changelog offsets are also written to a `.checkpoint` file in the directory of "
    "each task, as Kafka up to 4.2 does: for tools, and before you go back to an older release.",
    "processing.exception.handler.global.enabled": "Whether the handler of processing errors also decides about errors "
    "of the processors of global stores. Without it, such an error ends the instance.",
    "isolation.level": "What queries of stores show if they do not choose: `read_committed` shows what the last commit "
    "wrote, `read_uncommitted` also what was processed since. Without it: `read_committed` under exactly-once, else "
    "`read_uncommitted`. It changes no consumer of Kafka: a task reads committed records under exactly-once.",
    "poll.ms": "How long a thread without work waits for records.",
    "max.poll.records": "The most records that one poll returns.",
    "buffered.records.per.partition": "A task that has buffered more records of a partition than this pauses it.",
    "auto.offset.reset": "Where a task begins on a partition that has no committed offset. `none`: it is an error. "
    "Repartition topics always begin at the earliest record. What `latest` passes over is committed at once, so that a "
    "record that comes later is not passed over by the next owner.",
    "state.cleanup.delay.ms": "How long the directory of a task that is not here any more is kept.",
    "repartition.purge.interval.ms": "How often records that all tasks have read are deleted from repartition topics.",
    "application.server": "`host:port` under which the instance answers queries. Port 0 takes a free one. Without it, "
    "an instance on Spark or of a `LocalRun` takes a free port, and a `StreamsInstance` in a program of yours answers "
    "none.",
    "application.server.ssl.certfile": "PEM file with the certificate of the endpoint, and its chain. With it the "
    "endpoint speaks TLS only. Files of certificates are on the instance's machine, and read again when they change.",
    "application.server.ssl.keyfile": "PEM file with the private key. Without it the key is in the file of the "
    "certificate.",
    "application.server.ssl.keyfile.password": "Password of an encrypted private key. Better a key file that only the "
    "instance's user can read: configs are often shown.",
    "application.server.ssl.ca.certs": "PEM file with the authorities of the certificates that callers may show.",
    "application.server.ssl.cert.reqs": "Whether callers of the endpoint are asked for a certificate. With `required` "
    "nobody connects without one; with `optional` one that is shown has to be good.",
    "client.id": "The beginning of the names of the instance's members and clients. Without it: the application id "
    "and the process id.",
    "session.timeout.ms": "How long a member that is silent stays in the group.",
    "heartbeat.interval.ms": "How often an instance shows that it lives. Without it: 3000, or a third of the session "
    "timeout if that is less.",
    "rebalance.timeout.ms": "How long a rebalance waits for this member to rejoin. Kafka's consumer calls it "
    "`max.poll.interval.ms`.",
    "leave.on.disconnect": "Whether a process whose connection breaks is replaced within a fraction of a second, not "
    "only after its session. Kafka does not have this; `false` is Kafka's rule.",
    "errors.dead.letter.queue.topic.name": "The topic to which the handler `dead_letter` sends records that failed.",
    "ensure.explicit.internal.resource.naming": "`true` refuses a topology whose stores or repartition topics have "
    "generated names (KIP-1111), and names them all.",
    "topology.optimization": "`all`, `none`, or a list of `reuse.ktable.source.topics`, `merge.repartition.topics` and "
    "`single.store.self.join`. Give the same configs to `StreamsBuilder.build`. Without it: `none`.",
    "rocksdb.config.setter": "A function of a store's name and its `rocksdict.Options`, which it may change before the "
    "store is opened; or a class with such a method `set_config`; or the full name of one. The options have this "
    "runtime's defaults. All stores of a process share one block cache of 128 MiB and 128 MiB for memtables; a "
    "function that sets a block cache or a write buffer manager leaves that budget, so create such an object once, "
    "outside of the function. Leave atomic flush and the write-ahead log on: stores rely on both after a crash.",
    "default.key.serde": "The serde of keys where a call of the DSL is given none: a serde, `string`, `long`, "
    "`double`, `bytes`, `json`, or the full name of a serde or its class.",
    "default.value.serde": "The same for values.",
    "restore.batch.records": "The most changelog records that one pass of a thread restores while other tasks run.",
    "restore.pass.ms": "The longest time that one pass of a thread restores while other tasks run.",
    "record.pass.ms": "The longest time that one pass of a thread processes records before it punctuates and commits.",
}
"""Keys of `StreamsConfig`."""

PLACEMENT: dict[str, str] = {
    "kafka.version": "The Kafka version whose rules the leader follows: `4.3` or `4.4`. A new group has 4.4. A "
    "recording that names no version has the default of this table.",
    "num.standby.replicas": "How many standbys each stateful task has, on other processes than its active copy.",
    "acceptable.recovery.lag": "A copy that lacks at most this many changelog records counts as caught up. A task "
    "moves at once only to a process that has caught up.",
    "max.warmup.replicas": "The most warm-ups of the whole group at one time.",
    "probing.rebalance.interval.ms": "How often the group checks whether warm-ups have caught up.",
    "rack.aware.assignment.tags": "The tags over which the standbys of a task are spread, most important first. A "
    "member gives its own with `client.tag.<tag>`. An application that sets neither has `host`, and each instance the "
    "tag of its host. Empty: standbys are spread over processes only.",
    "rack.aware.assignment.strategy": "How tasks are placed by the racks of their partitions: `none`, `min_traffic` or "
    "`balance_subtopology`. It needs instances with a rack (`InstanceOptions.rack`).",
    "rack.aware.assignment.traffic_cost": "The cost of traffic between racks. No effect without a rack-aware strategy.",
    "rack.aware.assignment.non_overlap_cost": "The cost of a move. No effect without a rack-aware strategy.",
    "replication.factor": "Of internal topics; -1 leaves it to the brokers.",
    "windowstore.changelog.additional.retention.ms": "How much longer than its window store a changelog keeps a "
    "record. Brokers delete by their clock: give at least as much as the records may be older than the clock when they "
    "are processed. It counts when the topic is made.",
    "upgrade.from": "The version from which a rolling upgrade comes. The leader checks the value and does not use it, "
    "because the members' subscriptions show what each member can read.",
    "application.server": "`host:port` of the instance of a recording's leader. Kafka 4.4 shows it in messages of "
    "errors. An application sets it among the configs of an instance.",
    "minimal.movement.task.weights": "How heavy each task is. Only MinimalMovementTaskAssignor reads it.",
    "minimal.movement.pins": "Which tasks have to be where. Only MinimalMovementTaskAssignor reads it.",
}
"""Keys of `AssignmentConfigs`: they become part of the group's definition, and the leader reads them."""

PREFIXES: dict[str, str] = {
    "client.tag.": "A tag of this instance, for example `client.tag.zone`. The leader spreads standbys over them.",
    "topic.": "A config of every internal topic, for example `topic.retention.ms`.",
}
