import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadInfo;
import java.lang.management.ThreadMXBean;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.Optional;
import java.util.Properties;
import java.util.Set;
import java.util.regex.Pattern;
import org.apache.kafka.common.Metric;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.JoinWindows;
import org.apache.kafka.streams.kstream.Joined;
import org.apache.kafka.streams.kstream.KGroupedStream;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.SessionWindows;
import org.apache.kafka.streams.kstream.StreamJoined;
import org.apache.kafka.streams.kstream.Suppressed;
import org.apache.kafka.streams.kstream.TableJoined;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.kstream.WindowedSerdes;
import org.apache.kafka.streams.processor.api.ContextualProcessor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.SessionStore;
import org.apache.kafka.streams.state.Stores;
import org.apache.kafka.streams.state.WindowStore;

/**
 * Runs an application of {@code topologies.py} on Kafka Streams, as often as it is told, and answers what it took.
 *
 * <p>Arguments: bootstrap servers, application, topic of the events, topic of the table or of the other stream, bytes
 * of the record cache, stream threads.
 *
 * <p>Commands, a line each; each has one line as its answer:
 * {@code run ID DIRECTORY OUTPUT BEGIN END}: a new instance with this application id. The clock starts once it has
 * processed BEGIN records. Answers {@code processed} when it has processed END records.
 * {@code end}: the clock stops, and the instance is closed. Answers records since the clock started, wall ns, CPU ns of
 * the process and CPU ns of the stream threads.
 */
public final class Instance {
    private static final Serde<byte[]> BYTES = Serdes.ByteArray();
    private static final Serde<Long> LONG = Serdes.Long();
    private static final String STORE = "store";
    private static final long WINDOW_MS = 60_000;
    private static final long GAP_MS = 10_000;
    private static final long JOIN_WINDOW_MS = 1_000;
    private static final long ROWS_A_KEY = 10;
    private static final long ROWS_FIRST_MS = 10_000;
    private static final int HALF = 50;
    private static final Pattern STREAM_THREAD = Pattern.compile("(?!kafka-).*-StreamThread-\\d+");
    private static final Duration LONGEST_CLOSE = Duration.ofSeconds(60);
    private static final long LOOK_SHARPLY_MS = 1;
    private static final long LOOK_MS = 20;

    private final String[] arguments;
    private KafkaStreams streams;
    private Figures begun;

    private Instance(final String[] arguments) {
        this.arguments = arguments;
    }

    public static void main(final String[] arguments) throws IOException, InterruptedException {
        final Instance instance = new Instance(arguments);
        final BufferedReader commands = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            System.out.println(instance.answer(line.split(" ")));
            System.out.flush();
        }
        System.exit(0);
    }

    private String answer(final String[] words) throws InterruptedException {
        return switch (words[0]) {
            case "run" -> run(words[1], words[2], words[3], Long.parseLong(words[4]), Long.parseLong(words[5]));
            case "end" -> end();
            default -> throw new IllegalArgumentException("no such command: " + words[0]);
        };
    }

    private String run(
        final String id, final String directory, final String output, final long begin, final long end
    ) throws InterruptedException {
        final Properties configs = new Properties();
        configs.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, arguments[0]);
        configs.put(StreamsConfig.APPLICATION_ID_CONFIG, id);
        configs.put(StreamsConfig.STATE_DIR_CONFIG, directory);
        configs.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
        configs.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, arguments[4]);
        configs.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, arguments[5]);
        if (arguments[1].equals("foreign-key-join")) {
            configs.put(StreamsConfig.MAX_TASK_IDLE_MS_CONFIG, ROWS_FIRST_MS);
        }
        streams = new KafkaStreams(topology(output), configs);
        streams.setUncaughtExceptionHandler(thrown -> {
            thrown.printStackTrace();
            Runtime.getRuntime().halt(1);
            return StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
        });
        streams.start();
        // the counts grow at the end of a pass: the clock starts with a pass
        begun = waitFor(begin, LOOK_SHARPLY_MS);
        waitFor(end, LOOK_MS);
        return "processed";
    }

    private String end() {
        final Figures ended = figures();
        streams.close(LONGEST_CLOSE);
        return String.join(
            " ",
            Long.toString(ended.records - begun.records),
            Long.toString(ended.wallNs - begun.wallNs),
            Long.toString(ended.processNs - begun.processNs),
            Long.toString(ended.threadsNs - begun.threadsNs)
        );
    }

    private Figures waitFor(final long records, final long lookMs) throws InterruptedException {
        List<Metric> counts = List.of();
        while (processed(counts) < records) {
            Thread.sleep(lookMs);
            if (counts.size() < Integer.parseInt(arguments[5])) {
                counts = counts();
            }
        }
        return figures();
    }

    private Figures figures() {
        final ThreadMXBean threads = ManagementFactory.getThreadMXBean();
        long threadsNs = 0;
        for (final ThreadInfo thread : threads.getThreadInfo(threads.getAllThreadIds())) {
            if (thread != null && STREAM_THREAD.matcher(thread.getThreadName()).matches()) {
                threadsNs += threads.getThreadCpuTime(thread.getThreadId());
            }
        }
        final var system = (com.sun.management.OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
        return new Figures(processed(counts()), System.nanoTime(), system.getProcessCpuTime(), threadsNs);
    }

    /** Of each stream thread, how many records it has processed. */
    private List<Metric> counts() {
        return streams.metrics().values().stream()
            .map(metric -> (Metric) metric)
            .filter(metric -> metric.metricName().name().equals("process-total"))
            .filter(metric -> metric.metricName().group().equals("stream-thread-metrics"))
            .toList();
    }

    private static long processed(final List<Metric> counts) {
        return counts.stream().mapToLong(count -> ((Double) count.metricValue()).longValue()).sum();
    }

    private Topology topology(final String output) {
        final StreamsBuilder builder = new StreamsBuilder();
        if (arguments[1].equals("foreign-key-join")) {
            foreignKeyJoin(builder, output);
            return builder.build();
        }
        final KStream<byte[], byte[]> events = builder.stream(arguments[2], Consumed.with(BYTES, BYTES));
        final KGroupedStream<byte[], byte[]> byKey = events.groupByKey(Grouped.with(BYTES, BYTES));
        switch (arguments[1]) {
            case "map" -> events
                .map((key, value) -> KeyValue.pair(key, inCapitals(value)))
                .to(output, Produced.with(BYTES, BYTES));
            case "count" -> byKey
                .count(Materialized.<byte[], Long, KeyValueStore<Bytes, byte[]>>as(STORE)
                    .withKeySerde(BYTES).withValueSerde(LONG))
                .toStream()
                .to(output, Produced.with(BYTES, LONG));
            case "windowed-sum" -> byKey
                .windowedBy(TimeWindows.ofSizeWithNoGrace(Duration.ofMillis(WINDOW_MS)))
                .aggregate(
                    () -> 0L,
                    (key, value, soFar) -> soFar + ByteBuffer.wrap(value).getLong(),
                    Materialized.<byte[], Long, WindowStore<Bytes, byte[]>>as(STORE)
                        .withKeySerde(BYTES).withValueSerde(LONG)
                )
                .toStream()
                .to(output, Produced.with(new WindowedSerdes.TimeWindowedSerde<>(BYTES, WINDOW_MS), LONG));
            case "join" -> events
                .join(table(builder, arguments[3], STORE), Instance::joined, Joined.with(BYTES, BYTES, BYTES))
                .to(output, Produced.with(BYTES, BYTES));
            case "processor" -> {
                builder.addStateStore(
                    Stores.keyValueStoreBuilder(Stores.persistentKeyValueStore(STORE), BYTES, LONG));
                events
                    .<byte[], Long>process(CountingProcessor::new, STORE)
                    .to(output, Produced.with(BYTES, LONG));
            }
            case "stream-join" -> events
                .join(
                    builder.stream(arguments[3], Consumed.with(BYTES, BYTES)),
                    Instance::joined,
                    JoinWindows.ofTimeDifferenceWithNoGrace(Duration.ofMillis(JOIN_WINDOW_MS)),
                    StreamJoined.with(BYTES, BYTES, BYTES)
                )
                .to(output, Produced.with(BYTES, BYTES));
            case "sessions" -> byKey
                .windowedBy(SessionWindows.ofInactivityGapWithNoGrace(Duration.ofMillis(GAP_MS)))
                .count(Materialized.<byte[], Long, SessionStore<Bytes, byte[]>>as(STORE)
                    .withKeySerde(BYTES).withValueSerde(LONG))
                .toStream()
                .to(output, Produced.with(new WindowedSerdes.SessionWindowedSerde<>(BYTES), LONG));
            case "suppress" -> byKey
                .windowedBy(TimeWindows.ofSizeWithNoGrace(Duration.ofMillis(WINDOW_MS)))
                .count(Materialized.<byte[], Long, WindowStore<Bytes, byte[]>>as(STORE)
                    .withKeySerde(BYTES).withValueSerde(LONG))
                .suppress(Suppressed.untilWindowCloses(Suppressed.BufferConfig.unbounded()))
                .toStream()
                .to(output, Produced.with(new WindowedSerdes.TimeWindowedSerde<>(BYTES, WINDOW_MS), LONG));
            case "global-join" -> events
                .join(
                    builder.globalTable(
                        arguments[3],
                        Consumed.with(BYTES, BYTES),
                        Materialized.<byte[], byte[], KeyValueStore<Bytes, byte[]>>as(STORE)
                            .withKeySerde(BYTES).withValueSerde(BYTES)
                    ),
                    (key, value) -> key,
                    Instance::joined
                )
                .to(output, Produced.with(BYTES, BYTES));
            default -> throw new IllegalArgumentException("no such application: " + arguments[1]);
        }
        return builder.build();
    }

    /** Each event changes a row of the right table, which changes ten rows of the result. */
    private void foreignKeyJoin(final StreamsBuilder builder, final String output) {
        table(builder, arguments[3], "rows")
            .join(
                table(builder, arguments[2], STORE),
                (key, row) -> longAsBytes(ByteBuffer.wrap(key).getLong() / ROWS_A_KEY),
                (row, event) -> joined(event, row),
                TableJoined.with(null, (topic, key, value, partitions) ->
                    Optional.of(Set.of((int) (ByteBuffer.wrap(key).getLong() % partitions)))),
                Materialized.with(BYTES, BYTES)
            )
            .toStream()
            .to(output, Produced.with(BYTES, BYTES));
    }

    private static KTable<byte[], byte[]> table(final StreamsBuilder builder, final String topic, final String store) {
        return builder.table(
            topic,
            Consumed.with(BYTES, BYTES),
            Materialized.<byte[], byte[], KeyValueStore<Bytes, byte[]>>as(store)
                .withKeySerde(BYTES).withValueSerde(BYTES)
        );
    }

    private static byte[] longAsBytes(final long number) {
        return ByteBuffer.allocate(Long.BYTES).putLong(number).array();
    }

    private static byte[] inCapitals(final byte[] value) {
        final byte[] capitals = value.clone();
        for (int index = 0; index < capitals.length; index++) {
            if (capitals[index] >= 'a' && capitals[index] <= 'z') {
                capitals[index] -= 'a' - 'A';
            }
        }
        return capitals;
    }

    private static byte[] joined(final byte[] value, final byte[] ofTable) {
        final byte[] both = Arrays.copyOf(ofTable, ofTable.length);
        System.arraycopy(value, 0, both, 0, HALF);
        return both;
    }

    /** A get, a put and a forward for each record. */
    private static final class CountingProcessor extends ContextualProcessor<byte[], byte[], byte[], Long> {
        private KeyValueStore<byte[], Long> store;

        @Override
        public void init(final ProcessorContext<byte[], Long> context) {
            super.init(context);
            store = context.getStateStore(STORE);
        }

        @Override
        public void process(final Record<byte[], byte[]> record) {
            final Long before = store.get(record.key());
            final long count = before == null ? 1 : before + 1;
            store.put(record.key(), count);
            context().forward(record.withValue(count));
        }
    }

    /** {@code records}: processed since the instance was started. CPU is that of all its threads, GC and JIT included,
     * and that of the stream threads alone. */
    private record Figures(long records, long wallNs, long processNs, long threadsNs) { }
}
