package org.apache.kafka.streams.processor.internals;

import com.fasterxml.jackson.core.json.JsonWriteFeature;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.json.JsonMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Constructor;
import java.lang.reflect.Field;
import java.lang.reflect.InvocationHandler;
import java.lang.reflect.Proxy;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Base64;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.UUID;
import java.util.function.Function;
import java.util.stream.Stream;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.Config;
import org.apache.kafka.clients.admin.CreateTopicsResult;
import org.apache.kafka.clients.admin.DescribeTopicsResult;
import org.apache.kafka.clients.admin.ListOffsetsResult;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Assignment;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.GroupSubscription;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.internals.ConsumerProtocol;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.TopicPartitionInfo;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.errors.ClusterAuthorizationException;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;
import org.apache.kafka.common.internals.KafkaFutureImpl;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.StreamsConfig.InternalConfig;
import org.apache.kafka.streams.processor.TaskId;
import org.apache.kafka.streams.processor.assignment.AssignmentConfigs;
import org.apache.kafka.streams.processor.assignment.ProcessId;
import org.apache.kafka.streams.processor.internals.TopologyMetadata.Subtopology;
import org.apache.kafka.streams.processor.internals.assignment.AssignmentInfo;
import org.apache.kafka.streams.processor.internals.assignment.ClientState;
import org.apache.kafka.streams.processor.internals.assignment.FallbackPriorTaskAssignor;
import org.apache.kafka.streams.processor.internals.assignment.HighAvailabilityTaskAssignor;
import org.apache.kafka.streams.processor.internals.assignment.LegacyStickyTaskAssignor;
import org.apache.kafka.streams.processor.internals.assignment.LegacyTaskAssignor;
import org.apache.kafka.streams.processor.internals.assignment.RackAwareTaskAssignor;
import org.apache.kafka.streams.processor.internals.assignment.ReferenceContainer;
import org.apache.kafka.streams.processor.internals.assignment.StreamsAssignmentProtocolVersions;
import org.apache.kafka.streams.processor.internals.assignment.SubscriptionInfo;
import org.apache.kafka.streams.state.HostInfo;

/**
 * Kafka Streams' own leader, asked from outside: one JSON line in, the same line with Kafka's `output` out.
 *
 * <p>Lines are rebalance/1, placement/1 and codec/1. What iterates in a HashMap's order goes back into the line in the
 * order this JVM saw. A line that this program itself cannot serve is answered with {"failed": why}. It lives in this
 * package because the leader's parts are visible only here; nothing of Kafka is changed but the brokers it would ask.
 */
public final class Oracle {
    static final ObjectMapper JSON = JsonMapper.builder().enable(JsonWriteFeature.ESCAPE_NON_ASCII).build();

    private Oracle() { }

    public static void main(final String[] arguments) throws Exception {
        final PrintStream answers = new PrintStream(new FileOutputStream(FileDescriptor.out), false, StandardCharsets.US_ASCII);
        System.setOut(System.err);
        final BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String text = lines.readLine(); text != null; text = lines.readLine()) {
            answers.println(JSON.writeValueAsString(answer(text)));
            answers.flush();
        }
    }

    private static ObjectNode answer(final String text) {
        try {
            final ObjectNode line = (ObjectNode) JSON.readTree(text);
            final ObjectNode output = switch (line.get("format").asText()) {
                case "rebalance/1" -> line.has("leader_runs")
                    ? new Rebalance(line).leaderTimes(line.get("leader_runs").asInt())
                    : new Rebalance(line).output();
                case "placement/1" -> Placement.output(line);
                case "codec/1" -> Codec.output(line.get("op").asText(), line.get("input"));
                default -> throw new IllegalArgumentException("no such format: " + line.get("format"));
            };
            line.set("output", output);
            return line;
        } catch (final Exception | StackOverflowError failure) {
            failure.printStackTrace();
            return JSON.createObjectNode().put("failed", described(failure));
        }
    }

    /** The form in which recordings hold an error. */
    static String described(final Throwable error) {
        return error.getClass().getSimpleName() + ": " + error.getMessage();
    }

    static boolean isNull(final JsonNode node) {
        return node == null || node.isNull() || node.isMissingNode();
    }

    static String textOrNull(final JsonNode node) {
        return isNull(node) ? null : node.asText();
    }

    static List<String> texts(final JsonNode nodes) {
        return listOf(nodes, JsonNode::asText);
    }

    static <T> List<T> listOf(final JsonNode nodes, final Function<JsonNode, T> read) {
        final List<T> values = new ArrayList<>();
        nodes.forEach(node -> values.add(read.apply(node)));
        return values;
    }

    /** A HashMap that is filled in the order of the line. */
    static <K, V> Map<K, V> mapOf(final JsonNode entries, final Function<String, K> key, final Function<JsonNode, V> value) {
        final Map<K, V> values = new HashMap<>();
        entries.properties().forEach(entry -> values.put(key.apply(entry.getKey()), value.apply(entry.getValue())));
        return values;
    }

    static ArrayNode array(final Collection<?> values) {
        final ArrayNode array = JSON.createArrayNode();
        values.forEach(value -> array.add(String.valueOf(value)));
        return array;
    }

    static ProcessId processId(final String text) {
        return new ProcessId(UUID.fromString(text));
    }

    static byte[] bytes(final ByteBuffer buffer) {
        final byte[] raw = new byte[buffer.remaining()];
        buffer.duplicate().get(raw);
        return raw;
    }

    static String base64(final ByteBuffer buffer) {
        return buffer == null ? null : Base64.getEncoder().encodeToString(bytes(buffer));
    }

    static ByteBuffer fromBase64(final JsonNode text) {
        return isNull(text) ? null : ByteBuffer.wrap(Base64.getDecoder().decode(text.asText()));
    }
}

/** The task assignor alone. */
final class Placement {
    private Placement() { }

    static ObjectNode output(final ObjectNode line) throws ReflectiveOperationException {
        final Set<TaskId> tasks = tasks(line.get("tasks"));
        final Set<TaskId> stateful = tasks(line.get("stateful"));
        final Map<ProcessId, ClientState> clients = new HashMap<>();
        final Map<ProcessId, Map<String, Optional<String>>> racks = new HashMap<>();
        final Map<Subtopology, Set<TaskId>> subtopologies = new HashMap<>();
        tasks.forEach(task ->
            subtopologies.computeIfAbsent(new Subtopology(task.subtopology(), null), key -> new HashSet<>()).add(task));
        line.get("clients").properties().forEach(entry -> {
            final ProcessId process = Oracle.processId(entry.getKey());
            clients.put(process, client(process, entry.getValue()));
            racks.put(process, Map.of("consumer", Optional.ofNullable(Oracle.textOrNull(entry.getValue().get("rack")))));
        });
        inTheLeadersOrder(line, tasks, stateful, clients);
        final AssignmentConfigs configs = configs(line.get("configs"));
        final JsonNode racksOfTopics = line.path("partition_racks");
        final Cluster cluster = Racks.cluster(racksOfTopics);
        final InternalTopicManager described = Racks.described(racksOfTopics);
        final Map<TaskId, Set<TopicPartition>> sources = partitions(line.path("task_partitions"));
        final Map<TaskId, Set<TopicPartition>> changelogs = partitions(line.path("changelog_partitions"));
        final String assignor = line.get("assignor").asText();
        boolean probing = false;
        if (PublicInterface.isNamed(assignor)) {
            PublicInterface.place(
                PublicInterface.classOf(assignor, line.get("configs")).getDeclaredConstructor().newInstance(),
                PublicInterface.state(
                    configs, PublicInterface.infos(tasks, stateful, sources, changelogs, cluster, described), clients, racks),
                clients);
        } else {
            final RackAwareTaskAssignor rackAware = new RackAwareTaskAssignor(
                cluster, sources, changelogs, subtopologies, racks, described, configs, Time.SYSTEM);
            probing = assignor(assignor).assign(clients, tasks, stateful, rackAware, configs);
        }
        final ObjectNode output = Oracle.JSON.createObjectNode().put("probing_rebalance_needed", probing);
        final ObjectNode placed = output.putObject("clients");
        for (final Map.Entry<ProcessId, ClientState> client : new TreeMap<>(clients).entrySet()) {
            final ObjectNode tasksOfClient = placed.putObject(client.getKey().toString());
            tasksOfClient.set("active", Oracle.array(new TreeSet<>(client.getValue().activeTasks())));
            tasksOfClient.set("standby", Oracle.array(new TreeSet<>(client.getValue().standbyTasks())));
        }
        return output;
    }

    /** A set that grew, as the leader's did: its order is not that of one made for its final size. */
    private static Set<TaskId> tasks(final JsonNode names) {
        final Set<TaskId> tasks = new HashSet<>();
        tasks.addAll(Oracle.listOf(names, name -> TaskId.parse(name.asText())));
        return tasks;
    }

    private static Map<TaskId, Set<TopicPartition>> partitions(final JsonNode byTask) {
        return Oracle.mapOf(byTask, TaskId::parse, partitions -> new HashSet<>(
            Oracle.listOf(partitions, each -> new TopicPartition(each.get(0).asText(), each.get(1).asInt()))));
    }

    private static ClientState client(final ProcessId process, final JsonNode fields) {
        return new ClientState(
            tasks(fields.get("prev_active")),
            tasks(fields.get("prev_standby")),
            new TreeMap<>(Oracle.mapOf(fields.get("lags"), TaskId::parse, JsonNode::asLong)),
            Oracle.mapOf(fields.get("tags"), key -> key, JsonNode::asText),
            fields.get("capacity").asInt(),
            process);
    }

    private static void inTheLeadersOrder(
        final ObjectNode line, final Set<TaskId> tasks, final Set<TaskId> stateful, final Map<ProcessId, ClientState> clients) {
        line.set("tasks", Oracle.array(tasks));
        line.set("stateful", Oracle.array(stateful));
        final ObjectNode inOrder = Oracle.JSON.createObjectNode();
        clients.keySet().forEach(process -> inOrder.set(process.toString(), line.get("clients").get(process.toString())));
        line.set("clients", inOrder);
    }

    private static AssignmentConfigs configs(final JsonNode configs) {
        return new AssignmentConfigs(
            configs.path(StreamsConfig.ACCEPTABLE_RECOVERY_LAG_CONFIG).asLong(10_000L),
            configs.path(StreamsConfig.MAX_WARMUP_REPLICAS_CONFIG).asInt(2),
            configs.path(StreamsConfig.NUM_STANDBY_REPLICAS_CONFIG).asInt(0),
            configs.path(StreamsConfig.PROBING_REBALANCE_INTERVAL_MS_CONFIG).asLong(600_000L),
            Oracle.texts(configs.path(StreamsConfig.RACK_AWARE_ASSIGNMENT_TAGS_CONFIG)),
            optionalInt(configs.path(StreamsConfig.RACK_AWARE_ASSIGNMENT_TRAFFIC_COST_CONFIG)),
            optionalInt(configs.path(StreamsConfig.RACK_AWARE_ASSIGNMENT_NON_OVERLAP_COST_CONFIG)),
            configs.path(StreamsConfig.RACK_AWARE_ASSIGNMENT_STRATEGY_CONFIG)
                .asText(StreamsConfig.RACK_AWARE_ASSIGNMENT_STRATEGY_NONE));
    }

    private static OptionalInt optionalInt(final JsonNode value) {
        return Oracle.isNull(value) ? OptionalInt.empty() : OptionalInt.of(value.asInt());
    }

    private static LegacyTaskAssignor assignor(final String name) {
        return switch (name) {
            case "HighAvailabilityTaskAssignor" -> new HighAvailabilityTaskAssignor();
            case "LegacyStickyTaskAssignor" -> new LegacyStickyTaskAssignor();
            case "FallbackPriorTaskAssignor" -> new FallbackPriorTaskAssignor();
            default -> throw new IllegalArgumentException("no such task assignor: " + name);
        };
    }
}

/** Brokers as partition_racks of a placement has them: one for each rack. */
final class Racks {
    private Racks() { }

    static Cluster cluster(final JsonNode racksOfTopics) {
        final List<PartitionInfo> partitions = new ArrayList<>();
        racksOfTopics.properties().forEach(topic -> {
            int number = 0;
            for (final JsonNode racks : topic.getValue()) {
                final Node[] holders = nodes(racks).toArray(new Node[0]);
                partitions.add(new PartitionInfo(topic.getKey(), number++, null, holders, holders));
            }
        });
        return new Cluster("cluster", List.of(), partitions, Set.of(), Set.of());
    }

    static InternalTopicManager described(final JsonNode racksOfTopics) {
        final Map<String, Object> configs = Map.of(
            StreamsConfig.APPLICATION_ID_CONFIG, "app", StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, "localhost:1");
        return new InternalTopicManager(Time.SYSTEM, null, new ClientUtils.QuietStreamsConfig(configs)) {
            @Override
            public Map<String, List<TopicPartitionInfo>> getTopicPartitionInfo(final Set<String> topics) {
                final Map<String, List<TopicPartitionInfo>> answers = new HashMap<>();
                topics.forEach(topic -> {
                    if (racksOfTopics.has(topic)) {
                        answers.put(topic, infos(Oracle.listOf(racksOfTopics.get(topic), Racks::nodes)));
                    }
                });
                return answers;
            }
        };
    }

    static List<TopicPartitionInfo> infos(final List<List<Node>> replicas) {
        final List<TopicPartitionInfo> partitions = new ArrayList<>();
        replicas.forEach(holders -> partitions.add(new TopicPartitionInfo(partitions.size(), null, holders, holders)));
        return partitions;
    }

    private static List<Node> nodes(final JsonNode racks) {
        return Oracle.listOf(racks, rack -> new Node(1, "broker", 9092, Oracle.textOrNull(rack)));
    }
}

/** A topology as the line has it, in place of one that a builder would derive from its nodes. */
final class RecordedTopology extends InternalTopologyBuilder {
    private final JsonNode topology;

    RecordedTopology(final JsonNode topology) {
        this.topology = topology;
    }

    @Override
    public synchronized Map<Subtopology, TopicsInfo> subtopologyToTopicsInfo() {
        final Map<Subtopology, TopicsInfo> subtopologies = new LinkedHashMap<>();
        for (final JsonNode subtopology : topology.get("subtopologies")) {
            subtopologies.put(new Subtopology(subtopology.get("id").asInt(), null), topicsInfo(subtopology));
        }
        return subtopologies;
    }

    @Override
    public synchronized Collection<Set<String>> copartitionGroups() {
        return Oracle.listOf(topology.get("copartition_groups"), group -> new HashSet<>(Oracle.texts(group)));
    }

    /** An assignor of the public interface sees them. */
    @Override
    public synchronized Set<String> stateStoreNamesForSubtopology(final int id) {
        final Set<String> names = new HashSet<>();
        topology.get("subtopologies").forEach(subtopology -> {
            if (subtopology.get("id").asInt() == id) {
                names.addAll(Oracle.listOf(subtopology.get("stores"), store -> store.get("name").asText()));
            }
        });
        return names;
    }

    private static TopicsInfo topicsInfo(final JsonNode subtopology) {
        final Set<String> sinks = new HashSet<>();
        final Set<String> sources = new HashSet<>();
        sinks.addAll(Oracle.texts(subtopology.get("sink_topics")));
        sources.addAll(Oracle.texts(subtopology.get("source_topics")));
        final Map<String, InternalTopicConfig> repartitionTopics = new HashMap<>();
        for (final JsonNode topic : subtopology.get("repartition_source_topics")) {
            final String name = topic.get("name").asText();
            repartitionTopics.put(name, Oracle.isNull(topic.get("partitions"))
                ? new RepartitionTopicConfig(name, Map.of())
                : new RepartitionTopicConfig(name, Map.of(), topic.get("partitions").asInt(), true));
        }
        final Map<String, InternalTopicConfig> changelogs = new HashMap<>();
        for (final JsonNode store : subtopology.get("stores")) {
            final String own = Oracle.textOrNull(store.get("changelog_topic"));
            final String topic = own != null ? own : Oracle.textOrNull(store.get("source_topic_as_changelog"));
            // As the builder fills its map: computeIfAbsent would put a new topic before the others of its bucket.
            if (topic != null && !changelogs.containsKey(topic)) {
                changelogs.put(topic, changelog(topic, store.path("changelog")));
            }
        }
        return new TopicsInfo(sinks, sources, repartitionTopics, changelogs);
    }

    private static InternalTopicConfig changelog(final String topic, final JsonNode changelog) {
        final Map<String, String> configs = Oracle.mapOf(changelog.path("configs"), key -> key, JsonNode::asText);
        return switch (changelog.path("type").asText("unwindowed")) {
            case "windowed" -> new WindowedChangelogTopicConfig(topic, configs, changelog.path("retention_ms").asLong());
            case "versioned" -> new VersionedChangelogTopicConfig(topic, configs, changelog.path("min_compaction_lag_ms").asLong());
            default -> new UnwindowedUnversionedChangelogTopicConfig(topic, configs);
        };
    }
}

/** The brokers as a line describes them; what the leader creates is noted. */
final class RecordedBrokers {
    private final JsonNode input;
    private final Set<String> failures = new HashSet<>();
    private final Map<String, Integer> internalTopics;
    private final Map<Integer, Node> nodes = new LinkedHashMap<>();
    final ObjectNode createdOn = Oracle.JSON.createObjectNode();
    final ObjectNode created = Oracle.JSON.createObjectNode();

    RecordedBrokers(final JsonNode input) {
        this.input = input;
        failures.addAll(Oracle.texts(input.path("failures")));
        internalTopics = Oracle.mapOf(
            input.get("existing_internal_topics"), name -> name, topic -> topic.get("partitions").asInt());
        for (final JsonNode broker : input.get("cluster").get("brokers")) {
            final int id = broker.get("id").asInt();
            nodes.put(id, new Node(id, "broker-" + id, 9092, Oracle.textOrNull(broker.get("rack"))));
        }
    }

    Admin admin() {
        return asked(Admin.class, (proxy, method, arguments) -> switch (method.getName()) {
            case "describeTopics" -> new Descriptions(eachOf((Collection<?>) arguments[0], this::describe));
            case "createTopics" -> new Creations(creations((Collection<?>) arguments[0]));
            case "listOffsets" -> new ListOffsetsResult(ends(((Map<?, ?>) arguments[0]).keySet()));
            default -> throw new UnsupportedOperationException(method.toString());
        });
    }

    @SuppressWarnings("unchecked")
    Consumer<byte[], byte[]> consumer() {
        return asked(Consumer.class, (proxy, method, arguments) -> {
            if (!method.getName().equals("committed")) {
                throw new UnsupportedOperationException(method.toString());
            }
            return committed((Set<?>) arguments[0]);
        });
    }

    Cluster cluster() {
        final List<PartitionInfo> partitions = new ArrayList<>();
        input.get("cluster").get("topics").properties().forEach(topic -> {
            final JsonNode replicas = topic.getValue().path("replicas");
            for (int number = 0; number < topic.getValue().get("partitions").asInt(); number++) {
                final Node[] holders = Oracle.listOf(replicas.path(number), id -> nodes.get(id.asInt())).toArray(new Node[0]);
                partitions.add(new PartitionInfo(topic.getKey(), number, null, holders, holders));
            }
        });
        return new Cluster("cluster", nodes.values(), partitions, Set.of(), Set.of());
    }

    /** What describing topics answers when the leader asks for their brokers; it does so for source topics, too. */
    Map<String, List<TopicPartitionInfo>> replicas(final Set<String> topics) {
        final Map<String, List<TopicPartitionInfo>> answers = new HashMap<>();
        for (final String topic : topics) {
            final JsonNode known = Stream.of(
                    input.get("existing_internal_topics").path(topic), createdOn.path(topic),
                    input.get("cluster").get("topics").path(topic))
                .filter(each -> !each.isMissingNode()).findFirst().orElse(null);
            if (failures.contains("describe_topics") || known == null) {
                throw new TimeoutException("no answer for " + topic);
            }
            final List<List<Node>> replicas = new ArrayList<>();
            for (int number = 0; number < known.get("partitions").asInt(); number++) {
                replicas.add(Oracle.listOf(known.path("replicas").path(number), id -> nodes.get(id.asInt())));
            }
            answers.put(topic, Racks.infos(replicas));
        }
        return answers;
    }

    private KafkaFuture<TopicDescription> describe(final Object name) {
        if (failures.contains("describe_topics")) {
            return failed(new ClusterAuthorizationException("may not describe topics"));
        }
        final Integer count = internalTopics.get((String) name);
        if (count == null) {
            return failed(new UnknownTopicOrPartitionException("no such topic"));
        }
        final List<TopicPartitionInfo> partitions = new ArrayList<>();
        for (int number = 0; number < count; number++) {
            partitions.add(new TopicPartitionInfo(number, null, List.of(), List.of()));
        }
        return KafkaFuture.completedFuture(new TopicDescription((String) name, true, partitions));
    }

    private Map<String, KafkaFuture<CreateTopicsResult.TopicMetadataAndConfig>> creations(final Collection<?> topics) {
        final Map<String, KafkaFuture<CreateTopicsResult.TopicMetadataAndConfig>> answers = new HashMap<>();
        for (final Object each : topics) {
            final NewTopic topic = (NewTopic) each;
            answers.put(topic.name(), failures.contains("create_topics")
                ? failed(new ClusterAuthorizationException("may not create topics"))
                : KafkaFuture.completedFuture(create(topic)));
        }
        return answers;
    }

    private CreateTopicsResult.TopicMetadataAndConfig create(final NewTopic topic) {
        internalTopics.put(topic.name(), topic.numPartitions());
        createdOn.set(topic.name(), placed(topic));
        final ObjectNode noted = created.putObject(topic.name());
        noted.put("partitions", topic.numPartitions()).put("replication_factor", topic.replicationFactor());
        final ObjectNode configs = noted.putObject("configs");
        new TreeMap<>(topic.configs()).forEach(configs::put);
        return new CreateTopicsResult.TopicMetadataAndConfig(Uuid.ONE_UUID, topic.numPartitions(), 1, new Config(List.of()));
    }

    /** Round robin over the brokers, from one that the name decides; as the line says when it says where. */
    private JsonNode placed(final NewTopic topic) {
        final JsonNode known = input.path("created_internal_topics").path(topic.name());
        if (!known.isMissingNode()) {
            return known;
        }
        final List<Integer> ids = new ArrayList<>(nodes.keySet());
        final ObjectNode placed = Oracle.JSON.createObjectNode().put("partitions", topic.numPartitions());
        final ArrayNode replicas = placed.putArray("replicas");
        for (int number = 0; number < topic.numPartitions(); number++) {
            final ArrayNode holders = replicas.addArray();
            final int first = Math.floorMod(topic.name().hashCode() + number, Math.max(1, ids.size()));
            for (int copy = 0; copy < Math.min(Math.max(1, topic.replicationFactor()), ids.size()); copy++) {
                holders.add(ids.get((first + copy) % ids.size()));
            }
        }
        return placed;
    }

    private Map<TopicPartition, KafkaFuture<ListOffsetsResult.ListOffsetsResultInfo>> ends(final Collection<?> partitions) {
        final JsonNode ends = input.get("changelog_end_offsets");
        return eachOf(partitions, each -> {
            final TopicPartition partition = (TopicPartition) each;
            final JsonNode end = ends.path(partition.topic()).path(partition.partition());
            return failures.contains("changelog_end_offsets") || Oracle.isNull(end)
                ? failed(new TimeoutException("no end offsets"))
                : KafkaFuture.completedFuture(
                    new ListOffsetsResult.ListOffsetsResultInfo(end.asLong(), -1L, Optional.empty()));
        });
    }

    private Map<TopicPartition, OffsetAndMetadata> committed(final Collection<?> partitions) {
        if (failures.contains("committed_offsets")) {
            throw new TimeoutException("no committed offsets");
        }
        return eachOf(partitions, each -> {
            final TopicPartition partition = (TopicPartition) each;
            final JsonNode offset = input.get("committed_offsets").path(partition.topic()).path(partition.partition());
            return Oracle.isNull(offset) ? null : new OffsetAndMetadata(offset.asLong());
        });
    }

    /** In the order in which it was asked, which decides what a refusal names. */
    @SuppressWarnings("unchecked")
    private static <K, V> Map<K, V> eachOf(final Collection<?> keys, final Function<Object, V> value) {
        final Map<K, V> answers = new LinkedHashMap<>();
        keys.forEach(key -> answers.put((K) key, value.apply(key)));
        return answers;
    }

    private static <T> KafkaFuture<T> failed(final RuntimeException error) {
        final KafkaFutureImpl<T> future = new KafkaFutureImpl<>();
        future.completeExceptionally(error);
        return future;
    }

    static <T> T asked(final Class<T> type, final InvocationHandler answer) {
        return type.cast(Proxy.newProxyInstance(Oracle.class.getClassLoader(), new Class<?>[] {type}, answer));
    }

    private static final class Descriptions extends DescribeTopicsResult {
        Descriptions(final Map<String, KafkaFuture<TopicDescription>> byName) {
            super(null, byName);
        }
    }

    private static final class Creations extends CreateTopicsResult {
        Creations(final Map<String, KafkaFuture<TopicMetadataAndConfig>> byName) {
            super(byName);
        }
    }
}

/** One call of StreamsPartitionAssignor.assign, bytes to bytes. */
final class Rebalance {
    private static final String ASSIGNORS = "org.apache.kafka.streams.processor.internals.assignment.";
    private static final Set<String> LONGS = Set.of(
        StreamsConfig.ACCEPTABLE_RECOVERY_LAG_CONFIG,
        StreamsConfig.PROBING_REBALANCE_INTERVAL_MS_CONFIG,
        StreamsConfig.WINDOW_STORE_CHANGE_LOG_ADDITIONAL_RETENTION_MS_CONFIG);

    private final JsonNode input;
    private final long nowMs;
    private final RecordedBrokers brokers;
    private final RecordedTopology topology;
    private final Map<String, Integer> ready = new TreeMap<>();

    Rebalance(final JsonNode line) {
        input = line.get("input");
        nowMs = line.get("now_ms").asLong();
        brokers = new RecordedBrokers(input);
        topology = new RecordedTopology(input.get("topology"));
    }

    ObjectNode output() throws ReflectiveOperationException {
        topicsInTheLeadersOrder();
        if (!Oracle.isNull(input.get("future_process_id"))) {
            pinFutureId(UUID.fromString(input.get("future_process_id").asText()));
        }
        final ObjectNode output = Oracle.JSON.createObjectNode();
        Map<String, Assignment> assignments = Map.of();
        RuntimeException error = null;
        try {
            assignments = assignor().assign(brokers.cluster(), new GroupSubscription(subscriptions())).groupAssignment();
        } catch (final RuntimeException thrown) {
            error = thrown;
        }
        final boolean refused = write(assignments, output) || error != null;
        final ObjectNode internalTopics = output.putObject("internal_topics");
        if (refused) {
            brokers.created.properties().forEach(topic -> internalTopics.set(topic.getKey(), topic.getValue().get("partitions")));
        } else {
            ready.forEach(internalTopics::put);
        }
        output.set("created_topics", brokers.created);
        final JsonNode strategy = input.get("configs").path(StreamsConfig.RACK_AWARE_ASSIGNMENT_STRATEGY_CONFIG);
        if (!strategy.asText(StreamsConfig.RACK_AWARE_ASSIGNMENT_STRATEGY_NONE).equals("none")) {
            ((ObjectNode) input).set("created_internal_topics", brokers.createdOn);
        }
        final String assignor = input.get("assignor").asText();
        output.put("error", error == null ? null : PublicInterface.asInTheLine(Oracle.described(error), assignor));
        if (error != null && error.getCause() != null) {
            output.put("error_cause", Oracle.described(error.getCause()));
        }
        return output;
    }

    /** What the leader does in the group's protocol, so many times: from all subscriptions' bytes to all assignments'. */
    ObjectNode leaderTimes(final int runs) throws ReflectiveOperationException {
        topicsInTheLeadersOrder();
        final Map<String, byte[]> received = new LinkedHashMap<>();
        input.get("members").properties().forEach(member ->
            received.put(member.getKey(), Oracle.fromBase64(member.getValue().get("subscription")).array()));
        final ObjectNode output = Oracle.JSON.createObjectNode();
        final ArrayNode times = output.putArray("leader_ms");
        long bytes = 0;
        for (int run = 0; run < runs; run++) {
            final StreamsPartitionAssignor assignor = assignor();
            final long begun = System.nanoTime();
            final Map<String, Subscription> subscriptions = new HashMap<>();
            received.forEach((member, raw) ->
                subscriptions.put(member, ConsumerProtocol.deserializeSubscription(ByteBuffer.wrap(raw))));
            bytes = 0;
            for (final Assignment assignment
                : assignor.assign(brokers.cluster(), new GroupSubscription(subscriptions)).groupAssignment().values()) {
                bytes += ConsumerProtocol.serializeAssignment(assignment).remaining();
            }
            times.add((System.nanoTime() - begun) / 1e6);
        }
        return output.put("bytes", bytes);
    }

    /** The bytes of every member, in the order of the line, and what they say of the next round; whether with an error code. */
    private boolean write(final Map<String, Assignment> assignments, final ObjectNode output) {
        final ObjectNode bytes = output.putObject("assignments");
        Long probingAtMs = null;
        boolean followUp = false;
        boolean refused = false;
        for (final Map.Entry<String, JsonNode> member : input.get("members").properties()) {
            final Assignment assignment = assignments.get(member.getKey());
            if (assignment == null) {
                continue;
            }
            bytes.put(member.getKey(), Oracle.base64(ConsumerProtocol.serializeAssignment(assignment)));
            final AssignmentInfo info = AssignmentInfo.decode(assignment.userData());
            refused |= info.errCode() != 0;
            followUp |= info.nextRebalanceMs() == 0;
            if (info.nextRebalanceMs() > 0 && info.nextRebalanceMs() != Long.MAX_VALUE) {
                probingAtMs = probingAtMs == null ? info.nextRebalanceMs() : Math.min(probingAtMs, info.nextRebalanceMs());
            }
        }
        output.put("probing_rebalance_at_ms", probingAtMs);
        output.put("followup_rebalance", followUp);
        return refused;
    }

    private void topicsInTheLeadersOrder() {
        int number = 0;
        for (final InternalTopologyBuilder.TopicsInfo topics : topology.subtopologyToTopicsInfo().values()) {
            final ObjectNode subtopology = (ObjectNode) input.get("topology").get("subtopologies").get(number++);
            subtopology.set("source_topics", Oracle.array(topics.sourceTopics));
            subtopology.put("java_hash_code", topics.hashCode());
        }
    }

    /** The id of the client that gathers members of a future version is random in each JVM. */
    private static void pinFutureId(final UUID id) throws ReflectiveOperationException {
        final Field constant = StreamsPartitionAssignor.class.getDeclaredField("FUTURE_ID");
        constant.setAccessible(true);
        final Field wrapped = ProcessId.class.getDeclaredField("id");
        wrapped.setAccessible(true);
        wrapped.set(constant.get(null), id);
    }

    private Map<String, Subscription> subscriptions() {
        final Map<String, Subscription> subscriptions = new HashMap<>();
        input.get("members").properties().forEach(member -> {
            final Subscription subscription =
                ConsumerProtocol.deserializeSubscription(Oracle.fromBase64(member.getValue().get("subscription")));
            subscription.setGroupInstanceId(Optional.ofNullable(Oracle.textOrNull(member.getValue().get("group_instance_id"))));
            subscriptions.put(member.getKey(), subscription);
        });
        return subscriptions;
    }

    private StreamsPartitionAssignor assignor() throws ReflectiveOperationException {
        final Map<String, Object> configs = configs();
        final StreamsConfig streamsConfig = new ClientUtils.QuietStreamsConfig(configs);
        final TopologyMetadata metadata = new TopologyMetadata(topology, streamsConfig);
        final ReferenceContainer references = new ReferenceContainer();
        references.time = RecordedBrokers.asked(Time.class, (proxy, method, arguments) -> {
            if (method.getName().equals("milliseconds")) {
                return nowMs;
            }
            throw new UnsupportedOperationException(method.toString());
        });
        references.mainConsumer = brokers.consumer();
        references.adminClient = brokers.admin();
        references.clientTags = Map.of();
        final String leader = Oracle.textOrNull(input.get("leader_process_id"));
        references.taskManager = new TaskManager(
            references.time, null, leader == null ? null : Oracle.processId(leader), "", null, null, null, metadata,
            references.adminClient, null, null, null);
        references.streamsMetadataState = streamsMetadata(metadata);
        configs.put(InternalConfig.REFERENCE_CONTAINER_PARTITION_ASSIGNOR, references);
        final StreamsPartitionAssignor assignor = new StreamsPartitionAssignor();
        assignor.configure(configs);
        assignor.setInternalTopicManager(new InternalTopicManager(references.time, references.adminClient, streamsConfig) {
            @Override
            public Map<String, List<TopicPartitionInfo>> getTopicPartitionInfo(final Set<String> topics) {
                return brokers.replicas(topics);
            }

            @Override
            public Set<String> makeReady(final Map<String, InternalTopicConfig> topics) {
                final Set<String> created = super.makeReady(topics);
                topics.values().forEach(topic -> ready.put(topic.name(), topic.numberOfPartitions().orElseThrow()));
                return created;
            }
        });
        return assignor;
    }

    /** LogContext, the type of the last parameter, is in another package since 4.4, so it is taken from the constructor. */
    private static StreamsMetadataState streamsMetadata(final TopologyMetadata metadata) throws ReflectiveOperationException {
        final Constructor<?> constructor = StreamsMetadataState.class.getConstructors()[0];
        final Object logContext = constructor.getParameterTypes()[2].getConstructor().newInstance();
        return (StreamsMetadataState) constructor.newInstance(metadata, HostInfo.unavailable(), logContext);
    }

    private Map<String, Object> configs() {
        final Map<String, Object> configs = new HashMap<>();
        configs.put(StreamsConfig.APPLICATION_ID_CONFIG, input.get("application_id").asText());
        configs.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, "localhost:1");
        configs.put(StreamsConfig.RETRY_BACKOFF_MS_CONFIG, 0L);
        final String assignor = input.get("assignor").asText();
        if (PublicInterface.isNamed(assignor)) {
            configs.put(
                StreamsConfig.TASK_ASSIGNOR_CLASS_CONFIG, PublicInterface.classOf(assignor, input.get("configs")).getName());
        } else {
            configs.put(InternalConfig.INTERNAL_TASK_ASSIGNOR_CLASS, ASSIGNORS + assignor);
        }
        input.get("configs").properties().forEach(entry -> {
            final String key = entry.getKey();
            if (key.equals(StreamsConfig.RACK_AWARE_ASSIGNMENT_TAGS_CONFIG)) {
                final List<String> tags = Oracle.texts(entry.getValue());
                configs.put(key, tags);
                tags.forEach(tag -> configs.put(StreamsConfig.clientTagPrefix(tag), "value"));
            } else if (entry.getValue().isNull()) {
                return;
            } else if (LONGS.contains(key)) {
                configs.put(key, entry.getValue().asLong());
            } else {
                configs.put(key, entry.getValue().isInt() ? entry.getValue().asInt() : entry.getValue().asText());
            }
        });
        return configs;
    }
}

/** Kafka's codecs, both ways. A line that Kafka refuses has `error`, and `cause` when there is one. */
final class Codec {
    private Codec() { }

    static ObjectNode output(final String operation, final JsonNode input) {
        final ObjectNode output = Oracle.JSON.createObjectNode();
        final String message = operation.substring(0, operation.lastIndexOf('_'));
        try {
            ByteBuffer raw = Oracle.fromBase64(input.get("b64"));
            if (operation.endsWith("_encode")) {
                raw = encode(message, input);
                output.put("b64", Oracle.base64(raw));
            }
            output.set("decoded", decode(message, raw));
        } catch (final RuntimeException error) {
            output.put("error", Oracle.described(error));
            output.put("cause", error.getCause() == null ? null : Oracle.described(error.getCause()));
        }
        return output;
    }

    private static ByteBuffer encode(final String message, final JsonNode fields) {
        return switch (message) {
            case "subscription_info" -> subscriptionInfo(fields).encode();
            case "assignment_info" -> assignmentInfo(fields).encode();
            case "consumer_subscription" -> ConsumerProtocol.serializeSubscription(
                new Subscription(
                    Oracle.texts(fields.get("topics")), Oracle.fromBase64(fields.get("user_data_b64")),
                    Oracle.listOf(fields.get("owned_partitions"), Codec::partition), fields.get("generation_id").asInt(),
                    Optional.ofNullable(Oracle.textOrNull(fields.get("rack")))),
                (short) fields.get("version").asInt());
            case "consumer_assignment" -> ConsumerProtocol.serializeAssignment(
                new Assignment(
                    Oracle.listOf(fields.get("partitions"), Codec::partition), Oracle.fromBase64(fields.get("user_data_b64"))),
                (short) fields.get("version").asInt());
            default -> throw new IllegalStateException("no such message: " + message);
        };
    }

    private static SubscriptionInfo subscriptionInfo(final JsonNode fields) {
        return new SubscriptionInfo(
            fields.get("version").asInt(),
            fields.get("latest_supported_version").asInt(),
            Oracle.processId(fields.get("process_id").asText()),
            Oracle.textOrNull(fields.get("user_end_point")),
            Oracle.mapOf(fields.get("task_offset_sums"), TaskId::parse, JsonNode::asLong),
            (byte) fields.get("unique_field").asInt(),
            fields.get("error_code").asInt(),
            Oracle.mapOf(fields.get("client_tags"), key -> key, JsonNode::asText));
    }

    private static AssignmentInfo assignmentInfo(final JsonNode fields) {
        final AssignmentInfo info = new AssignmentInfo(
            fields.get("version").asInt(),
            fields.get("commonly_supported_version").asInt(),
            Oracle.listOf(fields.get("active_tasks"), node -> TaskId.parse(node.asText())),
            Oracle.mapOf(fields.get("standby_tasks"), TaskId::parse, Codec::partitionSet),
            Oracle.mapOf(fields.get("partitions_by_host"), Codec::host, Codec::partitionSet),
            Oracle.mapOf(fields.get("standby_partitions_by_host"), Codec::host, Codec::partitionSet),
            fields.get("err_code").asInt());
        if (fields.has("next_rebalance_ms")) {
            info.setNextRebalanceTime(fields.get("next_rebalance_ms").asLong());
        }
        return info;
    }

    private static ObjectNode decode(final String message, final ByteBuffer raw) {
        return switch (message) {
            case "subscription_info" -> asDecoded(SubscriptionInfo.decode(raw));
            case "assignment_info" -> asDecoded(AssignmentInfo.decode(raw));
            case "consumer_subscription" -> asDecoded(ConsumerProtocol.deserializeSubscription(raw));
            case "consumer_assignment" -> {
                final Assignment assignment = ConsumerProtocol.deserializeAssignment(raw);
                final ObjectNode decoded = Oracle.JSON.createObjectNode();
                decoded.set("partitions", rows(assignment.partitions()));
                yield decoded.put("user_data_b64", Oracle.base64(assignment.userData()));
            }
            default -> throw new IllegalStateException("no such message: " + message);
        };
    }

    private static ObjectNode asDecoded(final SubscriptionInfo info) {
        final ObjectNode decoded = Oracle.JSON.createObjectNode().put("version", info.version())
            .put("latest_supported_version", info.latestSupportedVersion());
        if (info.version() > StreamsAssignmentProtocolVersions.LATEST_SUPPORTED_VERSION) {
            return decoded;
        }
        decoded.put("process_id", info.processId().toString()).put("user_end_point", info.userEndPoint());
        final ObjectNode sums = decoded.putObject("task_offset_sums");
        info.taskOffsetSums().forEach((task, sum) -> sums.put(task.toString(), sum));
        decoded.set("prev_tasks", Oracle.array(info.prevTasks()));
        decoded.set("standby_tasks", Oracle.array(info.standbyTasks()));
        final ObjectNode tags = decoded.put("error_code", info.errorCode()).putObject("client_tags");
        info.clientTags().forEach(tags::put);
        return decoded;
    }

    private static ObjectNode asDecoded(final AssignmentInfo info) {
        final ObjectNode decoded = Oracle.JSON.createObjectNode().put("version", info.version())
            .put("commonly_supported_version", info.commonlySupportedVersion());
        decoded.set("active_tasks", Oracle.array(info.activeTasks()));
        decoded.set("standby_tasks", rowsByName(info.standbyTasks(), TaskId::toString));
        decoded.set("partitions_by_host", rowsByName(info.partitionsByHost(), Codec::hostName));
        decoded.set("standby_partitions_by_host", rowsByName(info.standbyPartitionByHost(), Codec::hostName));
        return decoded.put("err_code", info.errCode()).put("next_rebalance_ms", info.nextRebalanceMs());
    }

    private static ObjectNode asDecoded(final Subscription subscription) {
        final ObjectNode decoded = Oracle.JSON.createObjectNode();
        decoded.set("topics", Oracle.array(subscription.topics()));
        decoded.put("user_data_b64", Oracle.base64(subscription.userData()));
        decoded.set("owned_partitions", rows(subscription.ownedPartitions()));
        decoded.put("generation_id", subscription.generationId().orElse(null));
        return decoded.put("rack", subscription.rackId().orElse(null));
    }

    private static TopicPartition partition(final JsonNode row) {
        return new TopicPartition(row.get(0).asText(), row.get(1).asInt());
    }

    private static Set<TopicPartition> partitionSet(final JsonNode rows) {
        return new HashSet<>(Oracle.listOf(rows, Codec::partition));
    }

    private static HostInfo host(final String name) {
        final int colon = name.lastIndexOf(':');
        return new HostInfo(name.substring(0, colon), Integer.parseInt(name.substring(colon + 1)));
    }

    private static String hostName(final HostInfo host) {
        return host.host() + ":" + host.port();
    }

    private static ArrayNode rows(final Collection<TopicPartition> partitions) {
        final ArrayNode rows = Oracle.JSON.createArrayNode();
        partitions.forEach(partition -> rows.addArray().add(partition.topic()).add(partition.partition()));
        return rows;
    }

    private static <K> ObjectNode rowsByName(final Map<K, Set<TopicPartition>> partitions, final Function<K, String> name) {
        final ObjectNode named = Oracle.JSON.createObjectNode();
        partitions.forEach((key, held) -> named.set(name.apply(key), rows(held)));
        return named;
    }
}
