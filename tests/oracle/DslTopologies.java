package org.apache.kafka.streams;

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
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.zip.CRC32;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.streams.errors.ErrorHandlerContext;
import org.apache.kafka.streams.errors.ProductionExceptionHandler;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.processor.StateStore;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.SessionStore;
import org.apache.kafka.streams.state.ValueAndTimestamp;
import org.apache.kafka.streams.state.VersionedKeyValueStore;
import org.apache.kafka.streams.state.VersionedRecord;
import org.apache.kafka.streams.state.WindowStore;
import org.apache.kafka.streams.test.TestRecord;

/**
 * Kafka Streams' DSL and its TopologyTestDriver as a function: a case of `tests/dsl_vectors` in, the same with Kafka's
 * answer as "output" out.
 */
@SuppressWarnings({"rawtypes", "unchecked"})
final class DslTopologies {
    private static final ObjectMapper JSON = JsonMapper.builder().enable(JsonWriteFeature.ESCAPE_NON_ASCII).build();
    /** RocksDB syncs its files; a directory in memory makes that cheap. */
    private static final Path MEMORY = Path.of("/dev/shm");

    /** A production exception handler that always goes on. */
    public static final class ContinueProduction implements ProductionExceptionHandler {
        @Override
        public Response handleError(final ErrorHandlerContext context, final ProducerRecord<byte[], byte[]> record, final Exception error) {
            return Response.resume();
        }

        @Override
        public Response handleSerializationError(
            final ErrorHandlerContext context, final ProducerRecord record, final Exception error, final SerializationExceptionOrigin origin
        ) {
            return Response.resume();
        }

        @Override
        public void configure(final Map<String, ?> configs) { }
    }

    public static void main(final String[] arguments) throws Exception {
        final PrintStream answers = new PrintStream(new FileOutputStream(FileDescriptor.out), true, StandardCharsets.US_ASCII);
        System.setOut(System.err);
        final BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            answers.println(JSON.writeValueAsString(answer((ObjectNode) JSON.readTree(line))));
        }
    }

    private static ObjectNode answer(final ObjectNode written) throws IOException {
        final Path parent = Files.isDirectory(MEMORY) ? MEMORY : Path.of(System.getProperty("java.io.tmpdir"));
        final Path directory = Files.createTempDirectory(parent, "dsl-topologies");
        try {
            written.set("output", new DslTopologies(written).run(directory));
            return written;
        } catch (final RuntimeException | Error error) {
            error.printStackTrace();
            return JSON.createObjectNode().put("failed", error.toString());
        } finally {
            try (var found = Files.walk(directory)) {
                found.map(Path::toFile).sorted(Comparator.reverseOrder()).forEach(File::delete);
            }
        }
    }

    private final JsonNode written;
    private final ObjectNode output = JSON.createObjectNode();
    private final ArrayNode records = output.putArray("outputs");
    private final TreeSet<String> stores = new TreeSet<>();
    private final Map<String, Long> counts = new TreeMap<>();
    private final Map<String, CRC32> sums = new TreeMap<>();

    private DslTopologies(final JsonNode written) {
        this.written = written;
    }

    private ObjectNode run(final Path directory) {
        final Properties configs = new Properties();
        configs.put(StreamsConfig.APPLICATION_ID_CONFIG, "app");
        configs.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, "nowhere:1");
        configs.put(StreamsConfig.STATE_DIR_CONFIG, directory.toString());
        written.get("configs").properties().forEach(each -> configs.put(each.getKey(), each.getValue().asText()
            .replace("ContinueProduction", ContinueProduction.class.getName())));
        final Topology topology;
        try {
            topology = DslOperators.topology(written.get("topology"), configs, stores);
        } catch (final RuntimeException error) {
            return failed(JSON.getNodeFactory().textNode("build"), error);
        }
        final TopologyTestDriver driver;
        try {
            driver = new TopologyTestDriver(topology, configs, Instant.ofEpochMilli(written.path("initialWallClock_ms").asLong(1_000_000)));
        } catch (final RuntimeException error) {
            return failed(JSON.getNodeFactory().textNode("start"), error);
        }
        try {
            pipeAll(driver);
        } finally {
            try {
                driver.close();
            } catch (final RuntimeException error) {
                if (!output.has("error")) {
                    failed(JSON.getNodeFactory().textNode("close"), error);
                }
            }
        }
        return output;
    }

    private ObjectNode failed(final JsonNode at, final RuntimeException error) {
        final ObjectNode described = output.putObject("error");
        described.set("at", at);
        described.put("class", error.getClass().getName()).put("message", error.getMessage());
        Throwable root = error;
        while (root.getCause() != null) {
            root = root.getCause();
        }
        if (root != error) {
            described.put("rootClass", root.getClass().getName()).put("rootMessage", root.getMessage());
        }
        return output;
    }

    private void pipeAll(final TopologyTestDriver driver) {
        collect(driver, -1);
        for (int index = 0; index < written.get("inputs").size() && !output.has("error"); index++) {
            try {
                pipe(driver, written.get("inputs").get(index));
            } catch (final RuntimeException error) {
                failed(JSON.getNodeFactory().numberNode(index), error);
            }
            collect(driver, index);
        }
        double dropped = 0;
        for (final var metric : driver.metrics().entrySet()) {
            dropped += metric.getKey().name().equals("dropped-records-total") ? (Double) metric.getValue().metricValue() : 0;
        }
        output.put("dropped_records", (long) dropped);
        if (!output.has("error")) {
            final ObjectNode dumped = output.putObject("stores");
            stores.forEach(name -> dumped.set(name, dumped(driver.getAllStateStores().get(name))));
        }
        final ObjectNode internal = output.putObject("internal");
        counts.forEach((topic, count) -> internal.putArray(topic).add(count).add(sums.get(topic).getValue()));
    }

    private void pipe(final TopologyTestDriver driver, final JsonNode input) {
        if (input.has("advanceWallClock_ms")) {
            driver.advanceWallClockTime(Duration.ofMillis(input.get("advanceWallClock_ms").asLong()));
            return;
        }
        final String topic = input.get("topic").asText();
        final RecordHeaders headers = new RecordHeaders();
        for (final JsonNode header : input.path("headers")) {
            headers.add(header.get(0).asText(), header.get(1).isNull() ? null : header.get(1).asText().getBytes(StandardCharsets.UTF_8));
        }
        driver.createInputTopic(topic, new ByteArraySerializer(), new ByteArraySerializer()).pipeInput(new TestRecord<>(
            bytes(input, "key"), bytes(input, "value"), headers, input.get("timestamp_ms").asLong()));
    }

    private byte[] bytes(final JsonNode input, final String part) {
        if (input.has(part + "_hex")) {
            return HexFormat.of().parseHex(input.get(part + "_hex").asText());
        }
        final Object value = Functions.constant(input.get(part));
        final String serde = written.get("topics").get(input.get("topic").asText()).get(part).asText();
        return value == null ? null : DslOperators.serdeNamed(serde).serializer().serialize("", value);
    }

    /** What is new in all topics. The records of topics that the case does not name are only counted and summed. */
    private void collect(final TopologyTestDriver driver, final int after) {
        for (final String topic : new TreeSet<>(driver.producedTopicNames())) {
            final JsonNode serdes = written.get("topics").get(topic);
            final var reader = driver.createOutputTopic(topic, new ByteArrayDeserializer(), new ByteArrayDeserializer());
            for (final TestRecord<byte[], byte[]> record : reader.readRecordsToList()) {
                if (serdes == null) {
                    final String row = hex(record.key()) + " " + hex(record.value()) + " " + record.timestamp() + "\n";
                    counts.merge(topic, 1L, Long::sum);
                    sums.computeIfAbsent(topic, name -> new CRC32()).update(row.getBytes(StandardCharsets.US_ASCII));
                    continue;
                }
                final ObjectNode shown = records.addObject().put("after", after).put("topic", topic);
                shown.set("key", decoded(record.key(), serdes.get("key")));
                shown.set("value", decoded(record.value(), serdes.get("value")));
                shown.put("timestamp_ms", record.timestamp());
                for (final Header header : record.headers()) {
                    shown.withArray("headers").addArray().add(header.key()).add(text(header));
                }
            }
        }
    }

    private static String hex(final byte[] bytes) {
        return bytes == null ? "-" : HexFormat.of().formatHex(bytes);
    }

    private static String text(final Header header) {
        if (header.value() == null) {
            return null;
        }
        return header.key().equals("__streams.errors.stacktrace") ? "..." : new String(header.value(), StandardCharsets.UTF_8);
    }

    private static JsonNode decoded(final byte[] bytes, final JsonNode serde) {
        if (bytes == null) {
            return JSON.getNodeFactory().nullNode();
        }
        try {
            return json(DslOperators.serdeNamed(serde.asText()).deserializer().deserialize("", bytes));
        } catch (final RuntimeException unreadable) {
            return json(bytes);
        }
    }

    private static JsonNode json(final Object value) {
        if (value instanceof byte[] bytes) {
            return JSON.createObjectNode().put("hex", hex(bytes));
        }
        if (value instanceof Windowed<?> windowed) {
            final ObjectNode node = JSON.createObjectNode();
            node.set("key", json(windowed.key()));
            return node.put("start_ms", windowed.window().start()).put("end_ms", windowed.window().end());
        }
        return JSON.valueToTree(value);
    }

    // stores

    private JsonNode dumped(final StateStore store) {
        if (store == null) {
            return JSON.getNodeFactory().nullNode();
        }
        final List<ArrayNode> rows = new ArrayList<>();
        final ObjectNode node = JSON.createObjectNode();
        if (store instanceof VersionedKeyValueStore versioned) {
            node.put("type", "versioned");
            addVersions(versioned, rows);
        } else if (store instanceof WindowStore windows) {
            node.put("type", "window");
            windows.fetchAll(0, lastTime()).forEachRemaining(each -> {
                final KeyValue<Windowed<?>, ?> entry = (KeyValue<Windowed<?>, ?>) each;
                rows.add(row(entry.value, json(entry.key.key()), json(entry.key.window().start())));
            });
        } else if (store instanceof SessionStore sessions) {
            node.put("type", "session");
            sessions.findSessions(null, null, 0, lastTime()).forEachRemaining(each -> {
                final KeyValue<Windowed<?>, ?> entry = (KeyValue<Windowed<?>, ?>) each;
                final var window = entry.key.window();
                rows.add(row(entry.value, json(entry.key.key()), json(window.start()), json(window.end())));
            });
        } else {
            node.put("type", "keyValue");
            try (KeyValueIterator<Object, Object> entries = ((KeyValueStore<Object, Object>) store).all()) {
                entries.forEachRemaining(each -> rows.add(row(each.value, json(each.key))));
            }
        }
        rows.sort((one, other) -> Arrays.compareUnsigned(utf8(one), utf8(other)));
        node.putArray("rows").addAll(rows);
        return node;
    }

    private static byte[] utf8(final ArrayNode row) {
        return row.toString().getBytes(StandardCharsets.UTF_8);
    }

    private static ArrayNode row(final Object value, final JsonNode... place) {
        final ArrayNode row = JSON.createArrayNode().addAll(List.of(place));
        return value instanceof ValueAndTimestamp<?> both ? row.add(json(both.value())).add(both.timestamp()) : row.add(json(value));
    }

    /** Of all keys and times of inputs. */
    private void addVersions(final VersionedKeyValueStore<Object, Object> store, final List<ArrayNode> rows) {
        final TreeSet<String> keys = new TreeSet<>();
        final TreeSet<Long> times = new TreeSet<>();
        for (final JsonNode input : written.get("inputs")) {
            if (input.path("key").isTextual()) {
                keys.add(input.get("key").asText());
            }
            if (input.has("timestamp_ms")) {
                times.add(input.get("timestamp_ms").asLong());
            }
        }
        for (final String key : keys) {
            addVersion(rows, key, null, store.get(key));
            times.forEach(time -> addVersion(rows, key, time, store.get(key, time)));
        }
    }

    private static void addVersion(final List<ArrayNode> rows, final String key, final Long time, final VersionedRecord<?> found) {
        if (found != null) {
            final ArrayNode row = JSON.createArrayNode().add(key).add(time).add(json(found.value())).add(found.timestamp());
            rows.add(row.add(found.validTo().orElse(null)));
        }
    }

    /** No window begins later. Without an end, a store with a cache would be asked for all segments of all time. */
    private long lastTime() {
        long last = 0;
        long wallClock = 1_000_000;
        for (final JsonNode input : written.get("inputs")) {
            last = Math.max(last, input.path("timestamp_ms").asLong(0));
            wallClock += input.path("advanceWallClock_ms").asLong(0);
        }
        return last + largest(written.get("topology")) + wallClock;
    }

    /** The largest number of milliseconds in the topology. */
    private static long largest(final JsonNode node) {
        long found = 0;
        for (final var field : node.properties()) {
            found = Math.max(found, field.getKey().endsWith("_ms") ? field.getValue().asLong(0) : 0);
        }
        for (final JsonNode each : node) {
            found = Math.max(found, largest(each));
        }
        return found;
    }
}
