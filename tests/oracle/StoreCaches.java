package org.apache.kafka.streams.state.internals;

import com.fasterxml.jackson.core.json.JsonWriteFeature;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.json.JsonMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.File;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.TestInputTopic;
import org.apache.kafka.streams.TestOutputTopic;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.TopologyTestDriver;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.kstream.internals.Change;
import org.apache.kafka.streams.processor.StateStore;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.processor.internals.InternalProcessorContext;
import org.apache.kafka.streams.processor.internals.ProcessorNode;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.StoreBuilder;
import org.apache.kafka.streams.state.Stores;
import org.apache.kafka.streams.state.ValueAndTimestamp;
import org.apache.kafka.streams.state.WindowStore;
import org.apache.kafka.streams.state.WindowStoreIterator;
import org.apache.kafka.streams.test.TestRecord;

/**
 * Stores with a record cache as a function: a case of store_caches in, the same with "output" out. Each record has a
 * script of calls for the stores, and is committed after it; the output is what was written then, by topic.
 */
final class StoreCaches {
    private static final ObjectMapper JSON = JsonMapper.builder().enable(JsonWriteFeature.ESCAPE_NON_ASCII).build();

    public static void main(final String[] arguments) throws Exception {
        final PrintStream answers = new PrintStream(new FileOutputStream(FileDescriptor.out), true, StandardCharsets.US_ASCII);
        System.setOut(System.err);
        final BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            answers.println(JSON.writeValueAsString(answer((ObjectNode) JSON.readTree(line))));
        }
    }

    private static ObjectNode answer(final ObjectNode line) throws Exception {
        try {
            line.set("output", run(line));
            return line;
        } catch (final RuntimeException error) {
            error.printStackTrace();
            return JSON.createObjectNode().put("failed", error.toString());
        }
    }

    private static ArrayNode run(final JsonNode one) throws Exception {
        final List<String> topics = new ArrayList<>(List.of("out"));
        for (final JsonNode store : one.get("stores")) {
            if (store.get("logging").asBoolean()) {
                topics.add("app-" + store.get("name").asText() + "-changelog");
            }
        }
        final File directory = Files.createTempDirectory("store-caches").toFile();
        final Properties configs = new Properties();
        configs.put(StreamsConfig.APPLICATION_ID_CONFIG, "app");
        configs.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, "nowhere:1");
        configs.put(StreamsConfig.STATE_DIR_CONFIG, directory.getPath());
        configs.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, one.get("bytes").asLong());
        final ArrayNode output = JSON.createArrayNode();
        try (TopologyTestDriver driver = new TopologyTestDriver(topology(one.get("stores")), configs, Instant.EPOCH)) {
            final TestInputTopic<String, String> input = driver.createInputTopic("in", new StringSerializer(), new StringSerializer());
            for (final JsonNode piped : one.get("inputs")) {
                final RecordHeaders headers = new RecordHeaders();
                for (final JsonNode header : piped.get("headers")) {
                    headers.add(header.get(0).asText(), header.get(1).asText().getBytes(StandardCharsets.UTF_8));
                }
                input.pipeInput(new TestRecord<>("k", piped.get("steps").toString(), headers, piped.get("at").asLong()));
                final ObjectNode written = output.addObject();
                topics.forEach(topic -> written.set(topic, rows(driver, topic)));
            }
        } finally {
            try (var found = Files.walk(directory.toPath())) {
                found.map(java.nio.file.Path::toFile).sorted(java.util.Comparator.reverseOrder()).forEach(File::delete);
            }
        }
        return output;
    }

    private static ArrayNode rows(final TopologyTestDriver driver, final String topic) {
        final TestOutputTopic<byte[], byte[]> from = driver.createOutputTopic(topic, new ByteArrayDeserializer(), new ByteArrayDeserializer());
        final ArrayNode rows = JSON.createArrayNode();
        for (final TestRecord<byte[], byte[]> record : from.readRecordsToList()) {
            final ArrayNode row = rows.addArray().add(hex(record.key())).add(hex(record.value())).add(record.timestamp());
            final ArrayNode headers = row.addArray();
            for (final Header header : record.headers()) {
                headers.addArray().add(header.key()).add(hex(header.value()));
            }
        }
        return rows;
    }

    private static String hex(final byte[] bytes) {
        return bytes == null ? null : HexFormat.of().formatHex(bytes);
    }

    private static Topology topology(final JsonNode stores) {
        final Topology topology = new Topology();
        topology.addSource("source", Serdes.String().deserializer(), Serdes.String().deserializer(), "in");
        topology.addProcessor("scripted", () -> new Scripted(stores), "source");
        for (final JsonNode store : stores) {
            topology.addStateStore(builder(store), "scripted");
        }
        return topology.addSink("sink", "out", Serdes.String().serializer(), Serdes.String().serializer(), "scripted");
    }

    private static StoreBuilder<?> builder(final JsonNode store) {
        final String name = store.get("name").asText();
        final boolean persistent = store.get("persistent").asBoolean();
        final boolean timestamped = store.get("ts").asBoolean();
        final StoreBuilder<?> builder;
        if (store.has("window")) {
            final Duration retention = Duration.ofMillis(store.get("window").get("retention").asLong());
            final Duration size = Duration.ofMillis(store.get("window").get("size").asLong());
            if (timestamped) {
                final var supplier = persistent
                    ? Stores.persistentTimestampedWindowStore(name, retention, size, false)
                    : Stores.inMemoryWindowStore(name, retention, size, false);
                builder = Stores.timestampedWindowStoreBuilder(supplier, Serdes.String(), Serdes.String());
            } else {
                final var supplier = persistent
                    ? Stores.persistentWindowStore(name, retention, size, false)
                    : Stores.inMemoryWindowStore(name, retention, size, false);
                builder = Stores.windowStoreBuilder(supplier, Serdes.String(), Serdes.String());
            }
        } else if (timestamped) {
            final var supplier = persistent ? Stores.persistentTimestampedKeyValueStore(name) : Stores.inMemoryKeyValueStore(name);
            builder = Stores.timestampedKeyValueStoreBuilder(supplier, Serdes.String(), Serdes.String());
        } else {
            final var supplier = persistent ? Stores.persistentKeyValueStore(name) : Stores.inMemoryKeyValueStore(name);
            builder = Stores.keyValueStoreBuilder(supplier, Serdes.String(), Serdes.String());
        }
        if (store.get("caching").asBoolean()) {
            builder.withCachingEnabled();
        }
        return store.get("logging").asBoolean() ? builder.withLoggingEnabled(Map.of()) : builder.withLoggingDisabled();
    }

    private static final class Scripted implements Processor<String, String, String, String> {
        private final JsonNode definitions;
        private InternalProcessorContext<String, String> context;

        private Scripted(final JsonNode definitions) {
            this.definitions = definitions;
        }

        @Override
        @SuppressWarnings("unchecked")
        public void init(final ProcessorContext<String, String> given) {
            context = (InternalProcessorContext<String, String>) given;
            final ProcessorNode<?, ?, ?, ?> own = context.currentNode();
            for (final JsonNode store : definitions) {
                if (!store.get("listens").asBoolean()) {
                    continue;
                }
                final String name = store.get("name").asText();
                final CacheFlushListener<Object, Object> listener = flushed -> {
                    final ProcessorNode<?, ?, ?, ?> before = context.currentNode();
                    context.setCurrentNode(own);
                    try {
                        final Change<Object> change = flushed.value();
                        context.forward(new Record<>(
                            key(flushed.key()),
                            name + ":" + shown(change.newValue) + "|" + shown(change.oldValue),
                            flushed.timestamp(),
                            flushed.headers()
                        ));
                    } finally {
                        context.setCurrentNode(before);
                    }
                };
                ((WrappedStateStore<StateStore, Object, Object>) (WrappedStateStore<?, ?, ?>) context.getStateStore(name))
                    .setFlushListener(listener, store.get("old").asBoolean());
            }
        }

        @Override
        public void process(final Record<String, String> record) {
            final JsonNode steps;
            try {
                steps = JSON.readTree(record.value());
            } catch (final com.fasterxml.jackson.core.JsonProcessingException wrong) {
                throw new IllegalArgumentException(wrong);
            }
            for (final JsonNode step : steps) {
                final JsonNode definition = definition(step.get(0).asText());
                final String call = step.get(1).asText();
                final String value = step.get(3).isNull() ? null : step.get(3).asText();
                Object stored = value;
                if (value != null && definition.get("ts").asBoolean()) {
                    stored = ValueAndTimestamp.make(value, record.timestamp() + step.get(4).asLong());
                }
                final StateStore store = context.getStateStore(step.get(0).asText());
                final String answer = definition.has("window")
                    ? windowAnswer(cast(store), call, step, stored)
                    : answer(castKeyValue(store), call, step.get(2).isNull() ? null : step.get(2).asText(), value, stored);
                if (answer != null) {
                    context.forward(record.withKey(call).withValue(answer));
                }
            }
        }

        private JsonNode definition(final String name) {
            for (final JsonNode store : definitions) {
                if (store.get("name").asText().equals(name)) {
                    return store;
                }
            }
            throw new IllegalArgumentException(name);
        }
    }

    @SuppressWarnings("unchecked")
    private static WindowStore<String, Object> cast(final StateStore store) {
        return (WindowStore<String, Object>) store;
    }

    @SuppressWarnings("unchecked")
    private static KeyValueStore<String, Object> castKeyValue(final StateStore store) {
        return (KeyValueStore<String, Object>) store;
    }

    private static String answer(final KeyValueStore<String, Object> store, final String call, final String key, final String value, final Object stored) {
        return switch (call) {
            case "put" -> {
                store.put(key, stored);
                yield null;
            }
            case "absent" -> shown(store.putIfAbsent(key, stored));
            case "delete" -> shown(store.delete(key));
            case "get" -> shown(store.get(key));
            case "range" -> entries(store.range(key, value));
            case "reverse" -> entries(store.reverseRange(key, value));
            case "all" -> entries(store.all());
            default -> entries(store.prefixScan(key, new StringSerializer()));
        };
    }

    private static String windowAnswer(final WindowStore<String, Object> store, final String call, final JsonNode step, final Object stored) {
        final String key = step.get(2).asText();
        final long from = step.get(5).asLong();
        final long to = step.get(6).asLong();
        return switch (call) {
            case "put" -> {
                store.put(key, stored, from);
                yield null;
            }
            case "fetch" -> shown(store.fetch(key, from));
            case "range" -> {
                final StringBuilder found = new StringBuilder();
                try (WindowStoreIterator<Object> windows = store.fetch(key, from, to)) {
                    while (windows.hasNext()) {
                        final KeyValue<Long, Object> window = windows.next();
                        found.append(window.key).append('=').append(shown(window.value)).append(',');
                    }
                }
                yield found.toString();
            }
            default -> {
                final StringBuilder found = new StringBuilder();
                try (KeyValueIterator<Windowed<String>, Object> windows = store.fetchAll(from, to)) {
                    while (windows.hasNext()) {
                        final KeyValue<Windowed<String>, Object> window = windows.next();
                        found.append(key(window.key)).append('=').append(shown(window.value)).append(',');
                    }
                }
                yield found.toString();
            }
        };
    }

    private static String entries(final KeyValueIterator<String, Object> found) {
        final StringBuilder entries = new StringBuilder();
        try (found) {
            while (found.hasNext()) {
                final KeyValue<String, Object> entry = found.next();
                if (entry.value != null) {
                    entries.append(entry.key).append('=').append(shown(entry.value)).append(',');
                }
            }
        }
        return entries.toString();
    }

    private static String key(final Object key) {
        if (key instanceof Windowed<?> windowed) {
            return windowed.key() + "@" + windowed.window().start() + "-" + windowed.window().end();
        }
        return (String) key;
    }

    private static String shown(final Object value) {
        if (value == null) {
            return "-";
        }
        if (value instanceof ValueAndTimestamp<?> both) {
            return both.value() + "@" + both.timestamp();
        }
        return value.toString();
    }
}
