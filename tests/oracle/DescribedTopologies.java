package org.apache.kafka.streams.processor.internals;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Field;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Random;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.stream.Collectors;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.kstream.CogroupedKStream;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.GlobalKTable;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.JoinWindows;
import org.apache.kafka.streams.kstream.Joined;
import org.apache.kafka.streams.kstream.KGroupedStream;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Named;
import org.apache.kafka.streams.kstream.Repartitioned;
import org.apache.kafka.streams.kstream.SlidingWindows;
import org.apache.kafka.streams.kstream.StreamJoined;
import org.apache.kafka.streams.kstream.TableJoined;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.ProcessorSupplier;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.processor.internals.InternalTopologyBuilder.TopicsInfo;
import org.apache.kafka.streams.processor.internals.TopologyMetadata.Subtopology;
import org.apache.kafka.streams.processor.internals.assignment.CopartitionedTopicsEnforcer;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.StoreBuilder;
import org.apache.kafka.streams.state.Stores;

/**
 * Programs drawn by chance: {"seed": 7} in, the same with "output" out, which has the text of Topology#describe and what
 * InternalTopologyBuilder made of the program: co-partitioned topics, internal topics and source topics as changelogs.
 * "failed_program": Kafka refused the program.
 */
final class DescribedTopologies {
    private static final ObjectMapper JSON = new ObjectMapper();

    public static void main(final String[] arguments) throws Exception {
        final PrintStream answers = new PrintStream(new FileOutputStream(FileDescriptor.out), true, StandardCharsets.US_ASCII);
        final BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String text = lines.readLine(); text != null; text = lines.readLine()) {
            final ObjectNode line = (ObjectNode) JSON.readTree(text);
            final ObjectNode output = line.putObject("output");
            try {
                described(new Random(line.get("seed").asLong()), output);
            } catch (final RuntimeException refused) {
                output.removeAll();
                output.put("failed_program", refused.toString());
            }
            answers.println(JSON.writeValueAsString(line));
        }
    }

    private static void described(final Random random, final ObjectNode output) throws ReflectiveOperationException {
        random.nextInt();
        final boolean optimized = random.nextInt(3) == 0;
        final boolean nodes = random.nextInt(5) == 0;
        final Properties configs = new Properties();
        configs.put(StreamsConfig.APPLICATION_ID_CONFIG, "app");
        configs.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, "localhost:1");
        if (optimized) {
            configs.put(StreamsConfig.TOPOLOGY_OPTIMIZATION_CONFIG, StreamsConfig.OPTIMIZE);
        }
        configs.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        configs.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        final List<String> calls = new ArrayList<>();
        final Topology topology =
            nodes ? new DrawnNodes(random, calls).topology() : new DrawnStreams(random, calls).topology(configs);
        output.put("optimized", optimized);
        output.put("describe", topology.describe().toString());
        calls.forEach(output.putArray("calls")::add);
        final InternalTopologyBuilder builder = builderOf(topology);
        final StreamsConfig config = new StreamsConfig(configs);
        builder.rewriteTopology(config);
        final ArrayNode groups = output.putArray("copartition_groups");
        builder.copartitionGroups().stream().map(TreeSet::new).map(TreeSet::toString).sorted().distinct().forEach(
            group -> List.of(group.substring(1, group.length() - 1).split(", ")).forEach(groups.addArray()::add));
        final ArrayNode copartitioned = output.putArray("copartition_calls");
        topicsOfCalls(builder).forEach(topics -> put(copartitioned.addArray(), topics));
        final ArrayNode subtopologies = output.putArray("subtopologies");
        final Map<Subtopology, TopicsInfo> infos = new TreeMap<>((one, other) -> one.nodeGroupId - other.nodeGroupId);
        infos.putAll(builder.subtopologyToTopicsInfo());
        infos.forEach((subtopology, info) -> {
            final ObjectNode each = subtopologies.addObject();
            each.put("id", subtopology.nodeGroupId);
            put(each, "source_topics", info.sourceTopics);
            final ObjectNode repartition = each.putObject("repartition_source_topics");
            new TreeMap<>(info.repartitionSourceTopics).forEach((name, topic) -> repartition.put(name, fixedCount(topic)));
            put(each, "sink_topics", info.sinkTopics);
            put(each, "changelogs", info.nonSourceChangelogTopics().stream().map(InternalTopicConfig::name).toList());
            put(each, "source_topics_as_changelogs", info.sourceTopicChangelogs());
        });
        final Map<String, Integer> counts = new TreeMap<>();
        final int most = 1 + random.nextInt(3);
        infos.values().forEach(info -> new TreeSet<>(info.sourceTopics).forEach(topic -> {
            if (!info.repartitionSourceTopics.containsKey(topic)) {
                counts.computeIfAbsent(topic, each -> 2 * (1 + random.nextInt(most)));
            }
        }));
        counts.forEach(output.putObject("topics")::put);
        output.set("partitions", partitions(new TopologyMetadata(builder, config), counts, config));
    }

    /** Of the repartition topics, as the leader would create them; the name of an exception when it throws one. */
    private static JsonNode partitions(
        final TopologyMetadata topology, final Map<String, Integer> counts, final StreamsConfig configs) {
        final List<PartitionInfo> partitions = new ArrayList<>();
        counts.forEach((topic, count) -> {
            for (int number = 0; number < count; number++) {
                partitions.add(new PartitionInfo(topic, number, null, new Node[0], new Node[0]));
            }
        });
        final Cluster cluster = new Cluster("cluster", List.of(), partitions, Set.of(), Set.of());
        final ObjectNode wanted = JSON.createObjectNode();
        final InternalTopicManager manager = new InternalTopicManager(Time.SYSTEM, null, configs) {
            @Override
            public Set<String> makeReady(final Map<String, InternalTopicConfig> topics) {
                new TreeMap<>(topics).forEach((name, config) -> wanted.put(name, config.numberOfPartitions().orElseThrow()));
                return Set.of();
            }
        };
        try {
            new RepartitionTopics(topology, manager, new CopartitionedTopicsEnforcer(""), cluster, "").setup();
        } catch (final RuntimeException refused) {
            return JSON.getNodeFactory().textNode(refused.getClass().getSimpleName());
        }
        return wanted;
    }

    private static InternalTopologyBuilder builderOf(final Topology topology) throws ReflectiveOperationException {
        final Field builder = Topology.class.getDeclaredField("internalTopologyBuilder");
        builder.setAccessible(true);
        return (InternalTopologyBuilder) builder.get(topology);
    }

    private static Integer fixedCount(final InternalTopicConfig config) {
        return config.hasEnforcedNumberOfPartitions() ? config.numberOfPartitions().orElse(null) : null;
    }

    /** The topics that each call of the DSL had co-partitioned, in the order of the calls, before groups are joined. */
    @SuppressWarnings("unchecked")
    private static List<Set<String>> topicsOfCalls(final InternalTopologyBuilder builder) throws ReflectiveOperationException {
        final Field groups = InternalTopologyBuilder.class.getDeclaredField("copartitionSourceGroups");
        groups.setAccessible(true);
        final Field topics = InternalTopologyBuilder.class.getDeclaredField("nodeToSourceTopics");
        topics.setAccessible(true);
        final Map<String, List<String>> topicsOfNode = (Map<String, List<String>>) topics.get(builder);
        return ((List<Set<String>>) groups.get(builder)).stream().map(sources -> sources.stream()
            .flatMap(source -> topicsOfNode.getOrDefault(source, List.of()).stream())
            .collect(Collectors.toSet())).toList();
    }

    private static void put(final ObjectNode node, final String key, final Collection<String> names) {
        put(node.putArray(key), names);
    }

    private static void put(final ArrayNode array, final Collection<String> names) {
        new TreeSet<>(names).forEach(array::add);
    }
}

/** Calls of the DSL. */
final class DrawnStreams {
    private static final String[] TOPICS = {"a", "b", "c", "d", "e"};

    private final Random random;
    private final List<String> calls;
    private final StreamsBuilder builder = new StreamsBuilder();
    private final List<KStream<String, String>> streams = new ArrayList<>();
    private final List<KTable<String, String>> tables = new ArrayList<>();
    private final List<String> topics = new ArrayList<>(List.of(TOPICS));
    private final List<String> stores = new ArrayList<>();
    private GlobalKTable<String, String> global;
    private int names;

    DrawnStreams(final Random random, final List<String> calls) {
        this.random = random;
        this.calls = calls;
    }

    Topology topology(final Properties configs) {
        source();
        source();
        final int steps = 2 + random.nextInt(7);
        for (int step = 0; step < steps; step++) {
            step();
        }
        stream().to("out");
        return builder.build(configs);
    }

    private void step() {
        switch (random.nextInt(20)) {
            case 0, 1 -> source();
            case 2 -> add("merge", stream().merge(stream()));
            case 3 -> add("selectKey", stream().selectKey((key, value) -> value));
            case 4 -> add("mapValues", stream().mapValues(value -> value));
            case 5 -> repartition();
            case 6, 7 -> streamJoin();
            case 8, 9, 10 -> streamTableJoin();
            case 11, 12 -> tableJoin();
            case 13 -> foreignKeyJoin();
            case 14 -> aggregate();
            case 15 -> cogroup();
            case 16 -> toTable();
            case 17 -> add("toStream", table().toStream());
            case 18 -> processors();
            default -> filteredTable();
        }
    }

    private boolean one(final int in) {
        return random.nextInt(in) == 0;
    }

    private String name() {
        return "n" + names++;
    }

    private String nameOrNull() {
        return one(3) ? name() : null;
    }

    private void add(final String call, final KStream<String, String> stream) {
        calls.add(call);
        streams.add(stream);
    }

    private void add(final String call, final KTable<String, String> table) {
        calls.add(call);
        tables.add(table);
    }

    private KStream<String, String> stream() {
        if (streams.isEmpty()) {
            add("toStream", tables.get(random.nextInt(tables.size())).toStream());
        }
        return streams.get(random.nextInt(streams.size()));
    }

    private KTable<String, String> table() {
        if (tables.isEmpty()) {
            toTable();
        }
        return tables.get(random.nextInt(tables.size()));
    }

    private String topic() {
        return topics.isEmpty() ? null : topics.remove(random.nextInt(topics.size()));
    }

    private void source() {
        final String topic = topic();
        if (topic == null) {
            return;
        }
        final Consumed<String, String> consumed = one(4) ? Consumed.as(name()) : Consumed.with(null, null);
        switch (random.nextInt(8)) {
            case 0, 1, 2 -> {
                final List<String> read = new ArrayList<>(List.of(topic));
                while (!topics.isEmpty() && one(2)) {
                    read.add(topic());
                }
                add("stream" + read, builder.stream(read, consumed));
            }
            case 3, 4, 5 -> add("stream " + topic, builder.stream(topic, consumed));
            case 6 -> add("table " + topic, builder.table(topic, consumed, materialized()));
            default -> add("table " + topic, builder.table(topic, consumed));
        }
        if (global == null && one(12) && !topics.isEmpty()) {
            global = builder.globalTable(topic());
        }
    }

    private Materialized<String, String, KeyValueStore<org.apache.kafka.common.utils.Bytes, byte[]>> materialized() {
        final Materialized<String, String, KeyValueStore<org.apache.kafka.common.utils.Bytes, byte[]>> as =
            one(3) ? Materialized.with(null, null) : Materialized.as(name() + "-store");
        return one(6) ? as.withLoggingDisabled() : as;
    }

    private void repartition() {
        Repartitioned<String, String> repartitioned = one(2) ? Repartitioned.as(name()) : Repartitioned.with(null, null);
        if (one(3)) {
            repartitioned = repartitioned.withNumberOfPartitions(1 + random.nextInt(5));
        }
        add("repartition", stream().repartition(repartitioned));
    }

    private void streamJoin() {
        final KStream<String, String> left = stream();
        final KStream<String, String> right = one(3) ? left : stream();
        StreamJoined<String, String, String> joined = StreamJoined.with(null, null, null);
        if (one(3)) {
            joined = joined.withName(name());
        }
        if (one(3)) {
            joined = joined.withStoreName(name());
        }
        final JoinWindows windows = JoinWindows.ofTimeDifferenceWithNoGrace(Duration.ofMinutes(1));
        switch (random.nextInt(3)) {
            case 0 -> add("join", left.join(right, (one, other) -> one, windows, joined));
            case 1 -> add("leftJoin", left.leftJoin(right, (one, other) -> one, windows, joined));
            default -> add("outerJoin", left.outerJoin(right, (one, other) -> one, windows, joined));
        }
    }

    private void streamTableJoin() {
        if (global != null && one(3)) {
            add("join global", stream().join(global, (key, value) -> key, (one, other) -> one));
            return;
        }
        final String name = nameOrNull();
        final Joined<String, String, String> joined = name == null ? Joined.with(null, null, null) : Joined.as(name);
        final KStream<String, String> stream = stream();
        if (one(2)) {
            add("join table", stream.join(table(), (one, other) -> one, joined));
        } else {
            add("leftJoin table", stream.leftJoin(table(), (one, other) -> one, joined));
        }
    }

    private void tableJoin() {
        final KTable<String, String> left = table();
        final KTable<String, String> right = table();
        final String name = nameOrNull();
        if (name == null) {
            add("table join", one(2) ? left.join(right, (one, other) -> one) : left.outerJoin(right, (one, other) -> one));
        } else if (one(2)) {
            add("table join", left.leftJoin(right, (one, other) -> one, Named.as(name)));
        } else {
            add("table join", left.join(right, (one, other) -> one, Named.as(name), materialized()));
        }
    }

    private void foreignKeyJoin() {
        final String name = nameOrNull();
        if (name == null) {
            add("foreign-key join", table().<String, String, String>join(table(), value -> value, (one, other) -> one));
        } else {
            add("foreign-key join", table().<String, String, String>join(
                table(), value -> value, (one, other) -> one, TableJoined.<String, String>as(name)));
        }
    }

    private KGroupedStream<String, String> grouped() {
        final String name = nameOrNull();
        if (one(2)) {
            return name == null ? stream().groupByKey() : stream().groupByKey(Grouped.as(name));
        }
        return name == null
            ? stream().groupBy((key, value) -> value)
            : stream().groupBy((key, value) -> value, Grouped.as(name));
    }

    private void aggregate() {
        switch (random.nextInt(4)) {
            case 0 -> add("windowed", grouped().windowedBy(TimeWindows.ofSizeWithNoGrace(Duration.ofMinutes(1)))
                .reduce((one, other) -> one).toStream((windowed, value) -> windowed.key()).toTable());
            case 1 -> add("sliding", grouped().windowedBy(SlidingWindows.ofTimeDifferenceWithNoGrace(Duration.ofMinutes(1)))
                .reduce((one, other) -> one).toStream((windowed, value) -> windowed.key()));
            case 2 -> add("table reduce", table().groupBy(KeyValue::pair).reduce((one, other) -> one, (one, other) -> one));
            default -> add("reduce", one(2) ? grouped().reduce((one, other) -> one)
                : grouped().reduce((one, other) -> one, materialized()));
        }
    }

    private void cogroup() {
        CogroupedKStream<String, String> cogrouped = grouped().cogroup((key, value, aggregate) -> value);
        for (int more = 1 + random.nextInt(2); more > 0; more--) {
            cogrouped = cogrouped.cogroup(grouped(), (key, value, aggregate) -> value);
        }
        switch (random.nextInt(3)) {
            case 0 -> add("cogroup", cogrouped.aggregate(() -> "", Named.as(name())));
            case 1 -> add("cogroup", cogrouped.aggregate(() -> "", materialized()));
            default -> add("cogroup", cogrouped.aggregate(() -> ""));
        }
    }

    private void toTable() {
        if (streams.isEmpty()) {
            return;
        }
        add("toTable", one(2) ? stream().toTable() : stream().toTable(materialized()));
    }

    private void filteredTable() {
        add("filter", one(2) ? table().filter((key, value) -> true) : table().filter((key, value) -> true, materialized()));
    }

    private void processors() {
        final String store = stores.isEmpty() || one(3) ? name() + "-own" : stores.get(random.nextInt(stores.size()));
        if (!stores.contains(store)) {
            stores.add(store);
            builder.addStateStore(DrawnNodes.store(random, store));
        }
        for (int users = 1 + random.nextInt(2); users > 0; users--) {
            if (one(2)) {
                add("process", stream().process(DrawnNodes.<String, String>processor(), Named.as(name()), store));
            } else {
                add("process", stream().process(DrawnNodes.<String, String>processor(), store));
            }
        }
    }
}

/** Calls of the Processor API. */
final class DrawnNodes {
    private final Random random;
    private final List<String> calls;
    private final Topology topology = new Topology();
    private final List<String> nodes = new ArrayList<>();
    private final List<String> processors = new ArrayList<>();

    DrawnNodes(final Random random, final List<String> calls) {
        this.random = random;
        this.calls = calls;
    }

    static StoreBuilder<KeyValueStore<String, String>> store(final Random random, final String name) {
        final StoreBuilder<KeyValueStore<String, String>> store =
            Stores.keyValueStoreBuilder(Stores.inMemoryKeyValueStore(name), Serdes.String(), Serdes.String());
        return random.nextInt(6) == 0 ? store.withLoggingDisabled() : store;
    }

    static <K, V> ProcessorSupplier<String, String, K, V> processor() {
        return () -> new Processor<>() {
            @Override
            public void process(final Record<String, String> record) { }
        };
    }

    Topology topology() {
        final int sources = 1 + random.nextInt(4);
        for (int number = 0; number < sources; number++) {
            final List<String> read = new ArrayList<>(List.of("t" + number));
            if (random.nextInt(3) == 0) {
                read.add("u" + number);
            }
            nodes.add("source" + number);
            topology.addSource("source" + number, read.toArray(new String[0]));
        }
        final int users = 1 + random.nextInt(5);
        for (int number = 0; number < users; number++) {
            final Set<String> parents = new LinkedHashSet<>(List.of(any(nodes)));
            if (random.nextInt(4) == 0) {
                parents.add(any(nodes));
            }
            final String name = "processor" + number;
            topology.addProcessor(name, processor(), parents.toArray(new String[0]));
            nodes.add(name);
            processors.add(name);
        }
        for (int number = random.nextInt(4); number > 0; number--) {
            final Set<String> sharing = new LinkedHashSet<>(List.of(any(processors), any(processors)));
            calls.add("store of " + sharing);
            topology.addStateStore(store(random, "store" + number), sharing.toArray(new String[0]));
        }
        if (random.nextInt(4) == 0) {
            calls.add("read-only");
            topology.addReadOnlyStateStore(
                Stores.keyValueStoreBuilder(Stores.inMemoryKeyValueStore("read-only"), Serdes.String(), Serdes.String())
                    .withLoggingDisabled(),
                "read-only-source", Serdes.String().deserializer(), Serdes.String().deserializer(), "r", "read-only-processor",
                DrawnNodes.<Void, Void>processor());
            topology.connectProcessorAndStateStores(any(processors), "read-only");
        }
        topology.addSink("sink", "out", any(nodes));
        return topology;
    }

    private String any(final List<String> names) {
        return names.get(random.nextInt(names.size()));
    }
}
