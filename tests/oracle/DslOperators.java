package org.apache.kafka.streams;

import com.fasterxml.jackson.databind.JsonNode;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.TreeSet;
import java.util.function.BiFunction;
import java.util.function.Consumer;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.kstream.Aggregator;
import org.apache.kafka.streams.kstream.Branched;
import org.apache.kafka.streams.kstream.BranchedKStream;
import org.apache.kafka.streams.kstream.CogroupedKStream;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.EmitStrategy;
import org.apache.kafka.streams.kstream.GlobalKTable;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Initializer;
import org.apache.kafka.streams.kstream.JoinWindows;
import org.apache.kafka.streams.kstream.Joined;
import org.apache.kafka.streams.kstream.KGroupedStream;
import org.apache.kafka.streams.kstream.KGroupedTable;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.KeyValueMapper;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Merger;
import org.apache.kafka.streams.kstream.Named;
import org.apache.kafka.streams.kstream.Predicate;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.Reducer;
import org.apache.kafka.streams.kstream.Repartitioned;
import org.apache.kafka.streams.kstream.SessionWindowedCogroupedKStream;
import org.apache.kafka.streams.kstream.SessionWindowedKStream;
import org.apache.kafka.streams.kstream.SessionWindows;
import org.apache.kafka.streams.kstream.SlidingWindows;
import org.apache.kafka.streams.kstream.StreamJoined;
import org.apache.kafka.streams.kstream.Suppressed;
import org.apache.kafka.streams.kstream.Suppressed.BufferConfig;
import org.apache.kafka.streams.kstream.Suppressed.EagerBufferConfig;
import org.apache.kafka.streams.kstream.Suppressed.StrictBufferConfig;
import org.apache.kafka.streams.kstream.TableJoined;
import org.apache.kafka.streams.kstream.TimeWindowedCogroupedKStream;
import org.apache.kafka.streams.kstream.TimeWindowedKStream;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.kstream.UnlimitedWindows;
import org.apache.kafka.streams.kstream.ValueJoiner;
import org.apache.kafka.streams.kstream.ValueJoinerWithKey;
import org.apache.kafka.streams.kstream.ValueMapper;
import org.apache.kafka.streams.kstream.ValueMapperWithKey;
import org.apache.kafka.streams.kstream.WindowedSerdes;
import org.apache.kafka.streams.kstream.Windows;
import org.apache.kafka.streams.kstream.internals.NamedInternal;
import org.apache.kafka.streams.processor.TopicNameExtractor;
import org.apache.kafka.streams.processor.api.FixedKeyProcessorSupplier;
import org.apache.kafka.streams.processor.api.ProcessorSupplier;
import org.apache.kafka.streams.state.BuiltInDslStoreSuppliers;
import org.apache.kafka.streams.state.DslStoreSuppliers;
import org.apache.kafka.streams.state.StoreBuilder;
import org.apache.kafka.streams.state.Stores;

/**
 * The operators of the DSL by the names of cases, as one table: the type that has an operator, its name, and the call.
 * The types are raw: which types of keys and values fit is the generator's concern.
 */
@SuppressWarnings({"rawtypes", "unchecked"})
final class DslOperators {
    /** An operator of a case, of which the results are kept in `variables` and the names of its stores in `stores`. */
    private record Call(JsonNode operator, StreamsBuilder builder, Map<String, Object> variables, Set<String> stores) {
        JsonNode get(final String option) {
            return operator.get(option);
        }

        boolean has(final String option) {
            return operator.hasNonNull(option);
        }

        String text(final String option) {
            return has(option) ? get(option).asText() : null;
        }

        List<String> texts(final String option) {
            final List<String> texts = new ArrayList<>();
            operator.path(option).forEach(each -> texts.add(each.asText()));
            return texts;
        }

        String[] array(final String option) {
            return texts(option).toArray(String[]::new);
        }

        boolean is(final String option, final boolean missing) {
            return operator.path(option).asBoolean(missing);
        }

        Duration duration(final String option) {
            return Duration.ofMillis(get(option).asLong());
        }

        Serde serde(final String option) {
            return has(option) ? serdeNamed(text(option)) : null;
        }

        Serde keys() {
            return serde("keySerde");
        }

        Serde values() {
            return serde("valueSerde");
        }

        Named named() {
            return has("name") ? Named.as(text("name")) : NamedInternal.empty();
        }

        Object input(final int number) {
            final JsonNode names = get("in");
            return variables.get(names.isArray() ? names.get(number).asText() : names.asText());
        }

        Object other() {
            return input(1);
        }

        /** The same for what stands below an option. */
        Call below(final String option) {
            return new Call(get(option), builder, variables, stores);
        }

        Predicate predicate() {
            return (key, value) -> Functions.predicate(get("f"), key, value);
        }

        KeyValueMapper keyMapper(final String option) {
            return (key, value) -> Functions.key(get(option), key, value);
        }

        KeyValueMapper pairMapper() {
            return (key, value) -> Functions.pair(get("f"), key, value);
        }

        ValueMapperWithKey valueMapperWithKey() {
            return (key, value) -> Functions.value(get("f"), key, value);
        }

        ValueMapper valueMapper() {
            return value -> Functions.value(get("f"), null, value);
        }

        Initializer initializer() {
            return () -> Functions.constant(get("initializer"));
        }

        Aggregator aggregator(final JsonNode f) {
            return (key, value, soFar) -> Functions.aggregate(f, key, value, soFar);
        }

        Aggregator aggregator(final String option) {
            return aggregator(get(option));
        }

        Reducer reducer(final String option) {
            return (soFar, value) -> Functions.aggregate(get(option), null, value, soFar);
        }

        Merger merger() {
            return (key, one, other) -> Functions.merge(get("merger"), key, one, other);
        }

        ValueJoinerWithKey joinerWithKey() {
            return (key, left, right) -> Functions.join(get("joiner"), key, left, right);
        }

        ValueJoiner joiner() {
            return (left, right) -> Functions.join(get("joiner"), null, left, right);
        }

        ProcessorSupplier processor() {
            return () -> new DslProcessors.OfCase(get("processor"), texts("stores"));
        }

        Grouped grouped() {
            return Grouped.with(text("name"), keys(), values());
        }

        Consumed consumed() {
            final Consumed consumed = Consumed.with(keys(), values()).withName(text("name"));
            return has("timestampExtractor")
                ? consumed.withTimestampExtractor(Functions.timestampExtractor(get("timestampExtractor")))
                : consumed;
        }

        /** null if the operator has none: then it is the overload without. */
        Materialized materialized() {
            return has("materialized") ? below("materialized").asMaterialized() : null;
        }

        private Materialized asMaterialized() {
            final String name = text("name");
            if (name != null) {
                stores.add(name);
            }
            final Materialized store;
            if (has("historyRetention_ms")) {
                store = Materialized.as(Stores.persistentVersionedKeyValueStore(name, duration("historyRetention_ms")));
            } else {
                store = name == null ? Materialized.with(null, null) : Materialized.as(name);
            }
            store.withKeySerde(keys()).withValueSerde(values());
            if (has("storeType")) {
                store.withStoreType(suppliers());
            }
            if (has("caching") && is("caching", true)) {
                store.withCachingEnabled();
            } else if (has("caching")) {
                store.withCachingDisabled();
            }
            if (!is("logging", true)) {
                store.withLoggingDisabled();
            }
            return has("retention_ms") ? store.withRetention(duration("retention_ms")) : store;
        }

        private DslStoreSuppliers suppliers() {
            return text("storeType").equals("in_memory") ? BuiltInDslStoreSuppliers.IN_MEMORY : BuiltInDslStoreSuppliers.ROCKS_DB;
        }

        StoreBuilder storeBuilder() {
            final String name = text("store");
            stores.add(name);
            final boolean persistent = is("persistent", true);
            final StoreBuilder builder = switch (text("storeType")) {
                case "keyValue" -> Stores.keyValueStoreBuilder(
                    persistent ? Stores.persistentKeyValueStore(name) : Stores.inMemoryKeyValueStore(name), keys(), values());
                case "timestampedKeyValue" -> Stores.timestampedKeyValueStoreBuilder(
                    persistent ? Stores.persistentTimestampedKeyValueStore(name) : Stores.inMemoryKeyValueStore(name),
                    keys(),
                    values()
                );
                case "window" -> {
                    final Duration retention = duration("retention_ms");
                    final Duration size = duration("windowSize_ms");
                    final boolean duplicates = is("retainDuplicates", false);
                    yield Stores.windowStoreBuilder(
                        persistent
                            ? Stores.persistentWindowStore(name, retention, size, duplicates)
                            : Stores.inMemoryWindowStore(name, retention, size, duplicates),
                        keys(),
                        values()
                    );
                }
                case "session" -> Stores.sessionStoreBuilder(
                    persistent
                        ? Stores.persistentSessionStore(name, duration("retention_ms"))
                        : Stores.inMemorySessionStore(name, duration("retention_ms")),
                    keys(),
                    values()
                );
                case "versioned" -> Stores.versionedKeyValueStoreBuilder(
                    Stores.persistentVersionedKeyValueStore(name, duration("historyRetention_ms")), keys(), values());
                default -> throw new IllegalArgumentException("no store " + operator);
            };
            if (is("caching", false)) {
                builder.withCachingEnabled();
            }
            return is("logging", true) ? builder : builder.withLoggingDisabled();
        }

        Object windows() {
            final Call windows = below("windows");
            final Duration grace = Duration.ofMillis(windows.operator.path("grace_ms").asLong(0));
            return switch (windows.text("type")) {
                case "time" -> {
                    final TimeWindows time = TimeWindows.ofSizeAndGrace(windows.duration("size_ms"), grace);
                    yield windows.has("advance_ms") ? time.advanceBy(windows.duration("advance_ms")) : time;
                }
                case "sliding" -> SlidingWindows.ofTimeDifferenceAndGrace(windows.duration("difference_ms"), grace);
                case "session" -> SessionWindows.ofInactivityGapAndGrace(windows.duration("gap_ms"), grace);
                case "unlimited" -> UnlimitedWindows.of().startOn(Instant.ofEpochMilli(windows.get("start_ms").asLong()));
                default -> throw new IllegalArgumentException("no windows " + operator);
            };
        }

        JoinWindows joinWindows() {
            final Call windows = below("windows");
            final Duration before = windows.duration("before_ms");
            final Duration after = windows.duration("after_ms");
            final Duration longer = before.compareTo(after) < 0 ? after : before;
            final Duration grace = Duration.ofMillis(windows.operator.path("grace_ms").asLong(0));
            return JoinWindows.ofTimeDifferenceAndGrace(longer, grace).before(before).after(after);
        }

        EmitStrategy emitStrategy() {
            return "onWindowClose".equals(text("emitStrategy")) ? EmitStrategy.onWindowClose() : EmitStrategy.onWindowUpdate();
        }

        Suppressed suppressed() {
            final Call buffer = below("buffer");
            BufferConfig config = BufferConfig.unbounded();
            if (buffer.has("maxRecords") || buffer.has("maxBytes")) {
                final long bytes = buffer.operator.path("maxBytes").asLong(Long.MAX_VALUE);
                final EagerBufferConfig bounded = buffer.has("maxRecords")
                    ? BufferConfig.maxRecords(buffer.get("maxRecords").asLong()).withMaxBytes(bytes)
                    : BufferConfig.maxBytes(bytes);
                config = buffer.text("full").equals("shutDown") ? bounded.shutDownWhenFull() : bounded.emitEarlyWhenFull();
            }
            final Suppressed suppressed = text("until").equals("windowCloses")
                ? Suppressed.untilWindowCloses((StrictBufferConfig) config)
                : Suppressed.untilTimeLimit(duration("time_ms"), config);
            return has("name") ? suppressed.withName(text("name")) : suppressed;
        }

        StreamJoined streamJoined() {
            StreamJoined joined = StreamJoined.with(keys(), values(), serde("otherValueSerde"));
            if (has("name")) {
                joined = joined.withName(text("name"));
            }
            if (has("storeName")) {
                joined = joined.withStoreName(text("storeName"));
            }
            return has("storeType") ? joined.withDslStoreSuppliers(suppliers()) : joined;
        }

        Joined joined() {
            final Joined joined = Joined.with(keys(), values(), serde("otherValueSerde"), text("name"));
            return has("grace_ms") ? joined.withGracePeriod(duration("grace_ms")) : joined;
        }

        TableJoined tableJoined() {
            return TableJoined.as(text("name"));
        }

        BiFunction foreignKey() {
            return (key, value) -> Functions.key(get("foreignKey"), key, value);
        }
    }

    private record Place(Class<?> receiver, String name) { }

    private static final Map<Place, BiFunction<Call, Object, Object>> TABLE = new LinkedHashMap<>();
    private static final Set<Class<?>> RECEIVERS = new java.util.LinkedHashSet<>();

    private static <T> void on(final Class<T> receiver, final String name, final BiFunction<Call, T, Object> call) {
        RECEIVERS.add(receiver);
        TABLE.put(new Place(receiver, name), (BiFunction) call);
    }

    /**
     * The optimization does not move repartition topics above a processor (KAFKA-19668). Without this switch, Kafka moves
     * them; this project never does.
     */
    private static final Map<String, Object> PROCESSORS_CHANGE_KEYS = Map.of(
        StreamsConfig.APPLICATION_ID_CONFIG, "app",
        StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, "nowhere:1",
        TopologyConfig.InternalConfig.ENABLE_PROCESS_PROCESSVALUE_FIX, true
    );

    private DslOperators() { }

    /** The topology of a case. The names of the stores that the case names are put into `stores`. */
    static Topology topology(final JsonNode operators, final Properties configs, final TreeSet<String> stores) {
        final StreamsBuilder builder = new StreamsBuilder(new TopologyConfig(new StreamsConfig(PROCESSORS_CHANGE_KEYS)));
        final Map<String, Object> variables = new HashMap<>();
        for (final JsonNode operator : operators) {
            final Call call = new Call(operator, builder, variables, stores);
            final Object receiver = call.has("in") ? call.input(0) : builder;
            final Object result = found(receiver, call.text("op")).apply(call, receiver);
            if (call.has("out") && result != null) {
                variables.put(call.text("out"), result);
            }
        }
        return builder.build(configs);
    }

    private static BiFunction<Call, Object, Object> found(final Object receiver, final String name) {
        for (final Class<?> each : RECEIVERS) {
            final BiFunction<Call, Object, Object> call = each.isInstance(receiver) ? TABLE.get(new Place(each, name)) : null;
            if (call != null) {
                return call;
            }
        }
        throw new IllegalArgumentException("no operator " + name + " of " + receiver);
    }

    static Serde serdeNamed(final String name) {
        final String[] parts = name.split(":");
        return switch (parts[0]) {
            case "string" -> Serdes.String();
            case "long" -> Serdes.Long();
            case "bytes" -> Serdes.ByteArray();
            case "timeWindowed" -> new WindowedSerdes.TimeWindowedSerde(serdeNamed(parts[1]), Long.parseLong(parts[2]));
            case "sessionWindowed" -> new WindowedSerdes.SessionWindowedSerde(serdeNamed(parts[1]));
            default -> throw new IllegalArgumentException("no serde " + name);
        };
    }

    static {
        on(StreamsBuilder.class, "stream", (c, b) -> b.stream(c.texts("topics"), c.consumed()));
        on(StreamsBuilder.class, "table", (c, b) -> {
            final Materialized store = c.materialized();
            return store == null ? b.table(c.text("topic"), c.consumed()) : b.table(c.text("topic"), c.consumed(), store);
        });
        on(StreamsBuilder.class, "globalTable", (c, b) -> {
            final Materialized store = c.materialized();
            return store == null
                ? b.globalTable(c.text("topic"), c.consumed())
                : b.globalTable(c.text("topic"), c.consumed(), store);
        });
        on(StreamsBuilder.class, "addStateStore", (c, b) -> {
            b.addStateStore(c.storeBuilder());
            return null;
        });
        on(StreamsBuilder.class, "addGlobalStore", (c, b) -> {
            final List<String> stores = List.of(c.text("store"));
            final ProcessorSupplier update = () -> new DslProcessors.OfCase(DslProcessors.UPDATE, stores);
            b.addGlobalStore(c.storeBuilder(), c.text("topic"), c.consumed(), update);
            return null;
        });
    }

    static {
        on(KStream.class, "filter", (c, s) -> s.filter(c.predicate(), c.named()));
        on(KStream.class, "filterNot", (c, s) -> s.filterNot(c.predicate(), c.named()));
        on(KStream.class, "selectKey", (c, s) -> s.selectKey(c.keyMapper("f"), c.named()));
        on(KStream.class, "map", (c, s) -> s.map(c.pairMapper(), c.named()));
        on(KStream.class, "mapValues", (c, s) -> c.is("withKey", false)
            ? s.mapValues(c.valueMapperWithKey(), c.named())
            : s.mapValues(c.valueMapper(), c.named()));
        on(KStream.class, "flatMap", (c, s) ->
            s.flatMap((KeyValueMapper) (key, value) -> Functions.flatPairs(c.get("f"), key, value), c.named()));
        on(KStream.class, "flatMapValues", (c, s) -> c.is("withKey", false)
            ? s.flatMapValues((ValueMapperWithKey) (key, value) -> Functions.flatValues(c.get("f"), key, value), c.named())
            : s.flatMapValues((ValueMapper) value -> Functions.flatValues(c.get("f"), null, value), c.named()));
        on(KStream.class, "peek", (c, s) -> s.peek((key, value) -> { }, c.named()));
        on(KStream.class, "foreach", (c, s) -> {
            s.foreach((key, value) -> { }, c.named());
            return null;
        });
        on(KStream.class, "split", (c, s) -> {
            BranchedKStream branches = c.has("name") ? s.split(c.named()) : s.split();
            for (final JsonNode branch : c.get("branches")) {
                final Predicate predicate = (key, value) -> Functions.predicate(branch.get("f"), key, value);
                branches = branches.branch(predicate, branched(c, branch));
            }
            return c.has("defaultBranch") ? branches.defaultBranch(branched(c, c.get("defaultBranch"))) : branches.noDefaultBranch();
        });
        on(KStream.class, "merge", (c, s) -> s.merge((KStream) c.other(), c.named()));
        on(KStream.class, "repartition", (c, s) -> s.repartition(Repartitioned.with(c.keys(), c.values()).withName(c.text("name"))));
        on(KStream.class, "to", (c, s) -> {
            final Produced produced = Produced.with(c.keys(), c.values()).withName(c.text("name"));
            if (c.has("topic")) {
                s.to(c.text("topic"), produced);
            } else {
                final TopicNameExtractor topics =
                    (key, value, record) -> Functions.topic(c.get("topicExtractor"), key, value, record);
                s.to(topics, produced);
            }
            return null;
        });
        on(KStream.class, "toTable", (c, s) -> {
            final Materialized store = c.materialized();
            return store == null ? s.toTable(c.named()) : s.toTable(c.named(), store);
        });
        on(KStream.class, "groupByKey", (c, s) -> s.groupByKey(c.grouped()));
        on(KStream.class, "groupBy", (c, s) -> s.groupBy(c.keyMapper("f"), c.grouped()));
        on(KStream.class, "process", (c, s) -> {
            final String[] stores = c.has("globalStore") ? new String[0] : c.array("stores");
            return c.has("name") ? s.process(c.processor(), c.named(), stores) : s.process(c.processor(), stores);
        });
        on(KStream.class, "processValues", (c, s) -> {
            final FixedKeyProcessorSupplier supplier =
                () -> new DslProcessors.OfCaseWithFixedKey(c.get("processor"), c.texts("stores"));
            return c.has("name")
                ? s.processValues(supplier, c.named(), c.array("stores"))
                : s.processValues(supplier, c.array("stores"));
        });
        on(KStream.class, "join", (c, s) -> {
            if (c.other() instanceof KStream other) {
                return s.join(other, c.joinerWithKey(), c.joinWindows(), c.streamJoined());
            }
            return c.other() instanceof KTable table
                ? s.join(table, c.joinerWithKey(), c.joined())
                : s.join((GlobalKTable) c.other(), c.keyMapper("keySelector"), c.joinerWithKey(), c.named());
        });
        on(KStream.class, "leftJoin", (c, s) -> {
            if (c.other() instanceof KStream other) {
                return s.leftJoin(other, c.joinerWithKey(), c.joinWindows(), c.streamJoined());
            }
            return c.other() instanceof KTable table
                ? s.leftJoin(table, c.joinerWithKey(), c.joined())
                : s.leftJoin((GlobalKTable) c.other(), c.keyMapper("keySelector"), c.joinerWithKey(), c.named());
        });
        on(KStream.class, "outerJoin", (c, s) ->
            s.outerJoin((KStream) c.other(), c.joinerWithKey(), c.joinWindows(), c.streamJoined()));
    }

    private static Branched branched(final Call call, final JsonNode branch) {
        final Consumer<KStream> keep = stream -> call.variables.put(branch.get("out").asText(), stream);
        return Branched.withConsumer((Consumer) keep, branch.hasNonNull("name") ? branch.get("name").asText() : null);
    }

    static {
        on(KGroupedStream.class, "count", (c, g) -> c.has("materialized") ? g.count(c.named(), c.materialized()) : g.count(c.named()));
        on(KGroupedStream.class, "reduce", (c, g) ->
            c.has("materialized") ? g.reduce(c.reducer("reducer"), c.named(), c.materialized()) : g.reduce(c.reducer("reducer")));
        on(KGroupedStream.class, "aggregate", (c, g) ->
            g.aggregate(c.initializer(), c.aggregator("aggregator"), c.named(), c.materialized()));
        on(KGroupedStream.class, "windowedBy", (c, g) -> {
            if (c.windows() instanceof SessionWindows sessions) {
                return g.windowedBy(sessions).emitStrategy(c.emitStrategy());
            }
            final TimeWindowedKStream windowed = c.windows() instanceof SlidingWindows sliding
                ? g.windowedBy(sliding)
                : g.windowedBy((Windows) c.windows());
            return c.has("emitStrategy") ? windowed.emitStrategy(c.emitStrategy()) : windowed;
        });
        on(KGroupedStream.class, "cogroup", (c, g) -> {
            CogroupedKStream cogrouped = g.cogroup(c.aggregator(c.get("aggregators").get(0)));
            for (int number = 1; number < c.get("aggregators").size(); number++) {
                cogrouped = cogrouped.cogroup((KGroupedStream) c.input(number), c.aggregator(c.get("aggregators").get(number)));
            }
            return cogrouped;
        });
        on(TimeWindowedKStream.class, "count", (c, w) ->
            c.has("materialized") ? w.count(c.named(), c.materialized()) : w.count(c.named()));
        on(TimeWindowedKStream.class, "reduce", (c, w) -> c.has("materialized")
            ? w.reduce(c.reducer("reducer"), c.named(), c.materialized())
            : w.reduce(c.reducer("reducer"), c.named()));
        on(TimeWindowedKStream.class, "aggregate", (c, w) ->
            w.aggregate(c.initializer(), c.aggregator("aggregator"), c.named(), c.materialized()));
        on(SessionWindowedKStream.class, "count", (c, w) ->
            c.has("materialized") ? w.count(c.named(), c.materialized()) : w.count(c.named()));
        on(SessionWindowedKStream.class, "reduce", (c, w) -> c.has("materialized")
            ? w.reduce(c.reducer("reducer"), c.named(), c.materialized())
            : w.reduce(c.reducer("reducer"), c.named()));
        on(SessionWindowedKStream.class, "aggregate", (c, w) ->
            w.aggregate(c.initializer(), c.aggregator("aggregator"), c.merger(), c.named(), c.materialized()));
        on(CogroupedKStream.class, "aggregate", (c, g) -> g.aggregate(c.initializer(), c.named(), c.materialized()));
        on(CogroupedKStream.class, "windowedBy", (c, g) -> {
            if (c.windows() instanceof SessionWindows sessions) {
                return g.windowedBy(sessions);
            }
            return c.windows() instanceof SlidingWindows sliding ? g.windowedBy(sliding) : g.windowedBy((Windows) c.windows());
        });
        on(TimeWindowedCogroupedKStream.class, "aggregate", (c, w) -> w.aggregate(c.initializer(), c.named(), c.materialized()));
        on(SessionWindowedCogroupedKStream.class, "aggregate", (c, w) ->
            w.aggregate(c.initializer(), c.merger(), c.named(), c.materialized()));
    }

    static {
        on(KTable.class, "filter", (c, t) -> c.has("materialized")
            ? t.filter(c.predicate(), c.named(), c.materialized())
            : t.filter(c.predicate(), c.named()));
        on(KTable.class, "filterNot", (c, t) -> c.has("materialized")
            ? t.filterNot(c.predicate(), c.named(), c.materialized())
            : t.filterNot(c.predicate(), c.named()));
        on(KTable.class, "mapValues", (c, t) -> {
            if (c.is("withKey", false)) {
                return c.has("materialized")
                    ? t.mapValues(c.valueMapperWithKey(), c.named(), c.materialized())
                    : t.mapValues(c.valueMapperWithKey(), c.named());
            }
            return c.has("materialized")
                ? t.mapValues(c.valueMapper(), c.named(), c.materialized())
                : t.mapValues(c.valueMapper(), c.named());
        });
        on(KTable.class, "transformValues", (c, t) -> {
            final var supplier = DslProcessors.transformers(c.get("transformer"), c.texts("stores"));
            return c.has("materialized")
                ? t.transformValues(supplier, c.materialized(), c.named(), c.array("stores"))
                : t.transformValues(supplier, c.named(), c.array("stores"));
        });
        on(KTable.class, "toStream", (c, t) -> c.has("f") ? t.toStream(c.keyMapper("f"), c.named()) : t.toStream(c.named()));
        on(KTable.class, "groupBy", (c, t) -> t.groupBy(c.pairMapper(), c.grouped()));
        on(KTable.class, "suppress", (c, t) -> t.suppress(c.suppressed()));
        on(KTable.class, "join", (c, t) -> {
            final KTable other = (KTable) c.other();
            final Materialized store = c.materialized();
            if (c.has("foreignKey")) {
                return store == null
                    ? t.join(other, c.foreignKey(), c.joiner(), c.tableJoined())
                    : t.join(other, c.foreignKey(), c.joiner(), c.tableJoined(), store);
            }
            return store == null ? t.join(other, c.joiner(), c.named()) : t.join(other, c.joiner(), c.named(), store);
        });
        on(KTable.class, "leftJoin", (c, t) -> {
            final KTable other = (KTable) c.other();
            final Materialized store = c.materialized();
            if (c.has("foreignKey")) {
                return store == null
                    ? t.leftJoin(other, c.foreignKey(), c.joiner(), c.tableJoined())
                    : t.leftJoin(other, c.foreignKey(), c.joiner(), c.tableJoined(), store);
            }
            return store == null ? t.leftJoin(other, c.joiner(), c.named()) : t.leftJoin(other, c.joiner(), c.named(), store);
        });
        on(KTable.class, "outerJoin", (c, t) -> {
            final KTable other = (KTable) c.other();
            final Materialized store = c.materialized();
            return store == null ? t.outerJoin(other, c.joiner(), c.named()) : t.outerJoin(other, c.joiner(), c.named(), store);
        });
        on(KGroupedTable.class, "count", (c, g) -> c.has("materialized") ? g.count(c.named(), c.materialized()) : g.count(c.named()));
        on(KGroupedTable.class, "reduce", (c, g) -> c.has("materialized")
            ? g.reduce(c.reducer("adder"), c.reducer("subtractor"), c.named(), c.materialized())
            : g.reduce(c.reducer("adder"), c.reducer("subtractor")));
        on(KGroupedTable.class, "aggregate", (c, g) ->
            g.aggregate(c.initializer(), c.aggregator("adder"), c.aggregator("subtractor"), c.named(), c.materialized()));
    }
}
