import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.FileInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.CloseOptions;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.LagInfo;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.TaskMetadata;
import org.apache.kafka.streams.ThreadMetadata;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.JoinWindows;
import org.apache.kafka.streams.kstream.KGroupedStream;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.Repartitioned;
import org.apache.kafka.streams.kstream.SessionWindows;
import org.apache.kafka.streams.kstream.StreamJoined;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.processor.api.ContextualFixedKeyProcessor;
import org.apache.kafka.streams.processor.api.FixedKeyProcessorContext;
import org.apache.kafka.streams.processor.api.FixedKeyRecord;
import org.apache.kafka.streams.state.KeyValueBytesStoreSupplier;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.SessionStore;
import org.apache.kafka.streams.state.Stores;
import org.apache.kafka.streams.state.WindowStore;

/**
 * One instance of a small Kafka Streams application, told what to do on stdin, telling what it does on stdout.
 *
 * <p>Argument: a properties file. Keys that begin with {@code app.} are ours, all others are Kafka Streams' own:
 * {@code app.topology} (see {@link #topology}), {@code app.input}, {@code app.table}, {@code app.output} (topics),
 * {@code app.store} ({@code persistent} or {@code in-memory}), {@code app.describe} (print the topology, and end).
 *
 * <p>Commands, a line each: {@code close} (stay a member until the session ends), {@code leave} (leave the group),
 * {@code add-thread} (one thread, and with it one member, more), {@code lags} (how far each local store is behind).
 * The end of stdin means {@code close}.
 *
 * <p>Events, one JSON object a line, each with {@code event} and {@code at_ms}: {@code state}, {@code tasks} (on
 * change), {@code lags}, {@code exception}, {@code closed}; {@code first-record} of the topology told-words.
 */
public final class StreamsApp {
    private static final Serde<String> STRING = Serdes.String();
    private static final Pattern WORD = Pattern.compile("[A-Za-z]{4,}");
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final String END_OF_INPUT = "close";
    private static final long LOOK_EVERY_MS = 20;
    private static final Duration LONGEST_CLOSE = Duration.ofSeconds(30);

    private StreamsApp() { }

    public static void main(final String[] arguments) throws IOException, InterruptedException {
        final Properties configs = new Properties();
        try (InputStream file = new FileInputStream(arguments[0])) {
            configs.load(file);
        }
        final Properties own = new Properties();
        for (final String name : configs.stringPropertyNames()) {
            if (name.startsWith("app.")) {
                own.setProperty(name, (String) configs.remove(name));
            }
        }
        final Topology topology = topology(own);
        if (Boolean.parseBoolean(own.getProperty("app.describe"))) {
            System.out.print(topology.describe());
            return;
        }
        run(new KafkaStreams(topology, configs));
    }

    /**
     * word-count: what `spark_jobs/demo/word_count.py` builds in Python; the same nodes, stores, topics and serdes.
     * words: the words of the lines, counted; two subtopologies without a table.
     * told-words: as words, and every task tells its first record since it was initialised: {@code first-record}.
     * count-by-key: how often each key came; one subtopology, nothing between.
     * every-store: a store of each kind: key-value, windowed, session, versioned, and the windows of a join.
     */
    private static Topology topology(final Properties own) {
        final String output = own.getProperty("app.output", "word-counts");
        final StreamsBuilder builder = new StreamsBuilder();
        final String kind = own.getProperty("app.topology", "word-count");
        final KTable<String, Long> counts = switch (kind) {
            case "word-count" -> wordsByPackage(builder, own);
            case "words" -> words(builder, own);
            case "told-words" -> toldWords(builder, own);
            case "count-by-key" -> lines(builder, own).groupByKey(Grouped.with(STRING, STRING)).count(counts(own));
            case "every-store" -> everyStore(builder, own);
            default -> throw new IllegalArgumentException("no such app.topology: " + kind);
        };
        counts.toStream().to(output, Produced.with(STRING, Serdes.Long()));
        return builder.build();
    }

    private static KTable<String, Long> wordsByPackage(final StreamsBuilder builder, final Properties own) {
        final KTable<String, String> packages = builder.table(
            own.getProperty("app.table", "modules"),
            Consumed.with(STRING, STRING),
            Materialized.as(store(own, "packages"))
        );
        return lines(builder, own)
            .join(packages, (line, packageName) -> new String[] {packageName, line})
            .flatMap((module, packaged) -> {
                final List<KeyValue<String, String>> words = new ArrayList<>();
                final Matcher found = WORD.matcher(packaged[1]);
                while (found.find()) {
                    words.add(KeyValue.pair(packaged[0] + " " + found.group(), ""));
                }
                return words;
            })
            .groupByKey(Grouped.with(STRING, STRING))
            .count(counts(own));
    }

    private static KTable<String, Long> words(final StreamsBuilder builder, final Properties own) {
        return lines(builder, own)
            .flatMap((key, line) -> {
                final List<KeyValue<String, String>> words = new ArrayList<>();
                for (final String word : line.split(" ")) {
                    words.add(KeyValue.pair(word, ""));
                }
                return words;
            })
            .groupByKey(Grouped.with(STRING, STRING))
            .count(counts(own));
    }

    private static KTable<String, Long> toldWords(final StreamsBuilder builder, final Properties own) {
        return lines(builder, own)
            .<String>processValues(TellFirst::new)
            .flatMap((key, line) -> {
                final List<KeyValue<String, String>> words = new ArrayList<>();
                for (final String word : line.split(" ")) {
                    words.add(KeyValue.pair(word, ""));
                }
                return words;
            })
            .repartition(Repartitioned.with(STRING, STRING))
            .<String>processValues(TellFirst::new)
            .groupByKey(Grouped.with(STRING, STRING))
            .count(counts(own));
    }

    private static KTable<String, Long> everyStore(final StreamsBuilder builder, final Properties own) {
        final KStream<String, String> lines = lines(builder, own);
        final KGroupedStream<String, String> byKey = lines.groupByKey(Grouped.with(STRING, STRING));
        byKey.windowedBy(TimeWindows.ofSizeAndGrace(Duration.ofMinutes(5), Duration.ofMinutes(1)))
            .count(Materialized.<String, Long, WindowStore<Bytes, byte[]>>as("windows")
                .withRetention(Duration.ofHours(2)).withKeySerde(STRING).withValueSerde(Serdes.Long()));
        byKey.windowedBy(SessionWindows.ofInactivityGapAndGrace(Duration.ofMinutes(3), Duration.ofMinutes(4)))
            .count(Materialized.<String, Long, SessionStore<Bytes, byte[]>>as("sessions")
                .withKeySerde(STRING).withValueSerde(Serdes.Long()));
        lines.toTable(Materialized.<String, String>as(
            Stores.persistentVersionedKeyValueStore("versions", Duration.ofMinutes(10)))
            .withKeySerde(STRING).withValueSerde(STRING));
        lines.leftJoin(
            lines.mapValues(line -> line),
            (line, other) -> line + other,
            JoinWindows.ofTimeDifferenceAndGrace(Duration.ofMinutes(1), Duration.ofMinutes(5)),
            StreamJoined.with(STRING, STRING, STRING).withStoreName("pairs")
        );
        return lines.selectKey((key, line) -> line)
            .groupByKey(Grouped.with(STRING, STRING))
            .count(counts(own).withLoggingEnabled(Map.of("segment.bytes", "2097152")));
    }

    /** Tells the first record of its task, and passes all of them on. */
    private static final class TellFirst extends ContextualFixedKeyProcessor<String, String, String> {
        private boolean told;

        @Override
        public void init(final FixedKeyProcessorContext<String, String> context) {
            super.init(context);
            told = false; // a task that was a standby in between is initialised again with the same processors
        }

        @Override
        public void process(final FixedKeyRecord<String, String> record) {
            if (!told) {
                tell("first-record", Map.of("task", context().taskId().toString()));
                told = true;
            }
            context().forward(record);
        }
    }

    private static KStream<String, String> lines(final StreamsBuilder builder, final Properties own) {
        return builder.stream(own.getProperty("app.input", "lines"), Consumed.with(STRING, STRING));
    }

    private static Materialized<String, Long, KeyValueStore<Bytes, byte[]>> counts(final Properties own) {
        return Materialized.<String, Long>as(store(own, "counts")).withKeySerde(STRING).withValueSerde(Serdes.Long());
    }

    private static KeyValueBytesStoreSupplier store(final Properties own, final String name) {
        return own.getProperty("app.store", "persistent").equals("in-memory")
            ? Stores.inMemoryKeyValueStore(name)
            : Stores.persistentTimestampedKeyValueStore(name);
    }

    private static void run(final KafkaStreams streams) throws InterruptedException {
        final BlockingQueue<String> commands = new LinkedBlockingQueue<>();
        streams.setStateListener((now, before) -> tell("state", Map.of("state", now.name(), "was", before.name())));
        streams.setUncaughtExceptionHandler(thrown -> {
            tell("exception", Map.of("class", thrown.getClass().getName(), "message", String.valueOf(thrown)));
            thrown.printStackTrace();
            return StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
        });
        listen(commands);
        tell("state", Map.of("state", streams.state().name(), "was", ""));
        streams.start();
        Object told = null;
        while (true) {
            final Object now = threads(streams);
            if (!now.equals(told)) {
                tell("tasks", Map.of("threads", now));
                told = now;
            }
            final String command = commands.poll(LOOK_EVERY_MS, TimeUnit.MILLISECONDS);
            if (command != null && !obey(streams, command)) {
                return;
            }
        }
    }

    /** Whether to go on. */
    private static boolean obey(final KafkaStreams streams, final String command) {
        switch (command) {
            case "lags" -> tell("lags", Map.of("stores", lags(streams)));
            case "add-thread" -> tell("thread", Map.of("added", streams.addStreamThread().orElse("none")));
            case "close" -> closed(streams, CloseOptions.GroupMembershipOperation.REMAIN_IN_GROUP);
            case "leave" -> closed(streams, CloseOptions.GroupMembershipOperation.LEAVE_GROUP);
            default -> tell("exception", Map.of("class", "command", "message", "no such command: " + command));
        }
        return !command.equals("close") && !command.equals("leave");
    }

    private static void closed(final KafkaStreams streams, final CloseOptions.GroupMembershipOperation membership) {
        final boolean inTime =
            streams.close(CloseOptions.timeout(LONGEST_CLOSE).withGroupMembershipOperation(membership));
        tell("closed", Map.of("in_time", inTime));
    }

    private static void listen(final BlockingQueue<String> commands) {
        final Thread listener = new Thread(() -> {
            try (BufferedReader input =
                     new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8))) {
                for (String line = input.readLine(); line != null; line = input.readLine()) {
                    commands.add(line.strip());
                }
            } catch (final IOException closed) {
                // nobody will say anything any more
            }
            commands.add(END_OF_INPUT);
        });
        listener.setDaemon(true);
        listener.start();
    }

    /** Threads by name: state, ids of active and of standby tasks (warm-ups are standbys to the one who holds them). */
    private static Map<String, Object> threads(final KafkaStreams streams) {
        final Map<String, Object> threads = new TreeMap<>();
        for (final ThreadMetadata thread : streams.metadataForLocalThreads()) {
            final Map<String, Object> about = new LinkedHashMap<>();
            about.put("state", thread.threadState());
            about.put("client_id", thread.consumerClientId());
            about.put("active", tasks(thread.activeTasks()));
            about.put("standby", tasks(thread.standbyTasks()));
            threads.put(thread.threadName(), about);
        }
        return threads;
    }

    private static List<String> tasks(final Set<TaskMetadata> tasks) {
        return tasks.stream()
            .map(TaskMetadata::taskId)
            .sorted(Comparator.naturalOrder())
            .map(Object::toString)
            .toList();
    }

    private static Map<String, Object> lags(final KafkaStreams streams) {
        final Map<String, Object> stores = new TreeMap<>();
        streams.allLocalStorePartitionLags().forEach((store, partitions) -> {
            final Map<String, Object> lags = new TreeMap<>();
            for (final Map.Entry<Integer, LagInfo> each : partitions.entrySet()) {
                lags.put(String.valueOf(each.getKey()), each.getValue().offsetLag());
            }
            stores.put(store, lags);
        });
        return stores;
    }

    private static void tell(final String event, final Map<String, ?> about) {
        final Map<String, Object> line = new LinkedHashMap<>();
        line.put("event", event);
        line.put("at_ms", System.currentTimeMillis());
        line.putAll(about);
        try {
            final String text = JSON.writeValueAsString(line);
            synchronized (JSON) {
                System.out.println(text);
                System.out.flush();
            }
        } catch (final JsonProcessingException impossible) {
            throw new IllegalStateException(impossible);
        }
    }
}
