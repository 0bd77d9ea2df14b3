package org.apache.kafka.streams;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.function.BiConsumer;
import org.apache.kafka.common.header.Headers;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.streams.kstream.ValueTransformerWithKey;
import org.apache.kafka.streams.kstream.ValueTransformerWithKeySupplier;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.kstream.internals.SessionWindow;
import org.apache.kafka.streams.processor.Cancellable;
import org.apache.kafka.streams.processor.PunctuationType;
import org.apache.kafka.streams.processor.api.FixedKeyProcessor;
import org.apache.kafka.streams.processor.api.FixedKeyProcessorContext;
import org.apache.kafka.streams.processor.api.FixedKeyRecord;
import org.apache.kafka.streams.processor.api.ProcessingContext;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.SessionStore;
import org.apache.kafka.streams.state.TimestampedKeyValueStore;
import org.apache.kafka.streams.state.ValueAndTimestamp;
import org.apache.kafka.streams.state.VersionedKeyValueStore;
import org.apache.kafka.streams.state.VersionedRecord;
import org.apache.kafka.streams.state.WindowStore;

/**
 * User processors by the names that cases write, as one table: what is done with a record. Each has a twin in
 * `tests/dsl_vectors/processors.py`.
 */
@SuppressWarnings({"rawtypes", "unchecked"})
final class DslProcessors {
    static final JsonNode UPDATE = JsonNodeFactory.instance.arrayNode().add("update");

    private DslProcessors() { }

    /** How a processor of either kind forwards a record. `child`: null for all. */
    private interface Output {
        void forward(Object key, Object value, long time, Headers headers, String child);
    }

    /** A record of a processor of either kind, which can be forwarded with other parts. */
    private record Input(Object key, Object value, long time, Headers headers, Output output) {
        void forward(final Object newKey, final Object newValue, final long newTime, final Headers newHeaders) {
            output.forward(newKey, newValue, newTime, newHeaders, null);
        }

        void forward(final Object newValue) {
            forward(key, newValue, time, headers);
        }

        /** A new record: the value as text, the input's timestamp, no headers. */
        void answer(final Object newKey, final Object newValue) {
            forward(newKey, newValue == null ? null : Functions.text(newValue), time, new RecordHeaders());
        }

        /** One answer for each entry, then their number. */
        void answerAll(final KeyValueIterator<?, ?> entries) {
            final List<KeyValue<?, ?>> found = new ArrayList<>();
            try (entries) {
                entries.forEachRemaining(found::add);
            }
            found.forEach(each -> answer(each.key instanceof Long start ? "t" + start : Functions.text(each.key), each.value));
            answer("end", found.size());
        }
    }

    /** The processor of a record: its parameters, its context and its first store. */
    private static final class Place {
        final JsonNode parameters;
        final ProcessingContext context;
        final Object store;
        long seen;
        long fired;
        Cancellable punctuation;

        Place(final JsonNode parameters, final ProcessingContext context, final List<String> stores) {
            this.parameters = parameters;
            this.context = context;
            this.store = stores.stream().map(name -> (Object) context.getStateStore(name)).toList().stream().findFirst().orElse(null);
        }

        JsonNode parameter(final int number) {
            return parameters.path(number);
        }

        long number(final int number) {
            return parameter(number).asLong(0);
        }

        KeyValueStore<Object, Object> keyValues() {
            return (KeyValueStore<Object, Object>) store;
        }

        String where() {
            final String record = context.recordMetadata()
                .map(metadata -> metadata.topic() + "/" + metadata.partition() + "/" + metadata.offset())
                .orElse("none");
            return record + "/" + context.currentStreamTimeMs() + "/" + context.currentSystemTimeMs();
        }
    }

    private static final Map<String, BiConsumer<Place, Input>> TABLE = Map.ofEntries(
        Map.entry("identity", (place, in) -> in.forward(in.value())),
        Map.entry("value", (place, in) -> in.forward(Functions.value(place.parameter(1), in.key(), in.value()))),
        Map.entry("drop", (place, in) -> { }),
        Map.entry("commit", (place, in) -> {
            place.context.commit();
            in.forward(in.value());
        }),
        Map.entry("copies", (place, in) -> {
            for (long copy = 0; copy < place.number(1); copy++) {
                in.forward(in.key(), Functions.text(in.value()) + "#" + copy, in.time() + copy, in.headers());
            }
        }),
        Map.entry("shiftTime", (place, in) -> in.forward(in.key(), in.value(), in.time() + place.number(1), in.headers())),
        Map.entry("newKey", (place, in) -> in.forward(
            Functions.key(place.parameter(1), in.key(), in.value()), in.value(), in.time(), in.headers())),
        Map.entry("throwOn", (place, in) -> in.forward(Functions.checked(place.parameters, in.value()))),
        Map.entry("toChildren", (place, in) -> {
            final JsonNode children = place.parameter(1);
            final int child = Math.floorMod(Functions.hash(in.value()), Math.max(1, children.size()));
            in.output().forward(
                in.key(), in.value(), in.time(), in.headers(), in.value() == null ? null : children.get(child).asText());
        }),
        Map.entry("headers", (place, in) -> {
            final Headers headers = new RecordHeaders(in.headers()).remove("drop");
            headers.add("seen", Functions.text(in.key()).getBytes(StandardCharsets.UTF_8));
            in.forward(in.key(), in.value(), in.time(), headers);
        }),
        Map.entry("context", (place, in) -> in.forward(Functions.text(in.value()) + "|" + place.where())),
        Map.entry("dedup", (place, in) -> {
            if (in.key() == null || !Objects.equals(place.keyValues().get(in.key()), in.value())) {
                if (in.key() != null) {
                    place.keyValues().put(in.key(), in.value());
                }
                in.forward(in.value());
            }
        }),
        Map.entry("countPerKey", (place, in) -> {
            if (in.key() != null) {
                final long count = Functions.num(place.keyValues().get(in.key())) + 1;
                place.keyValues().put(in.key(), count);
                in.forward(count);
            }
        }),
        Map.entry("lookup", (place, in) -> {
            Object found = in.value() == null ? null : place.keyValues().get(in.value());
            if (found instanceof ValueAndTimestamp<?> both) {
                found = both.value();
            }
            in.forward(Functions.text(in.value()) + "~" + Functions.text(found));
        }),
        Map.entry("update", (place, in) -> {
            if (in.key() != null) {
                final boolean timestamped = place.store instanceof TimestampedKeyValueStore;
                place.keyValues().put(in.key(), timestamped ? ValueAndTimestamp.make(in.value(), in.time()) : in.value());
            }
        }),
        Map.entry("streamTick", DslProcessors::countAndForward),
        Map.entry("wallTick", DslProcessors::countAndForward),
        Map.entry("streamTickOnly", (place, in) -> place.seen++),
        Map.entry("timestampedPut", (place, in) -> {
            if (in.key() != null) {
                final ValueAndTimestamp<?> old = (ValueAndTimestamp<?>) place.keyValues().get(in.key());
                if (old == null || old.timestamp() <= in.time()) {
                    place.keyValues().put(in.key(), ValueAndTimestamp.make(in.value(), in.time()));
                    in.answer(in.key(), old == null ? "new" : Functions.text(old.value()) + "@" + old.timestamp());
                }
            }
        }),
        Map.entry("keyValueScript", unlessKeyIsNull(DslProcessors::runKeyValueScript)),
        Map.entry("windowScript", unlessKeyIsNull(DslProcessors::runWindowScript)),
        Map.entry("sessionScript", unlessKeyIsNull(DslProcessors::runSessionScript)),
        Map.entry("versionedScript", unlessKeyIsNull(DslProcessors::runVersionedScript))
    );

    private static BiConsumer<Place, Input> unlessKeyIsNull(final BiConsumer<Place, Input> script) {
        return (place, in) -> {
            if (in.key() != null) {
                script.accept(place, in);
            }
        };
    }

    private static void countAndForward(final Place place, final Input in) {
        place.seen++;
        if (place.store != null && in.key() != null) {
            place.keyValues().put(in.key(), in.value());
        }
        in.forward(in.value());
    }

    private static boolean isQuestion(final Input in) {
        return in.value() != null && Functions.text(in.value()).startsWith("?");
    }

    private static String orNull(final String text) {
        return text.equals("*") ? null : text;
    }

    private static void runKeyValueScript(final Place place, final Input in) {
        final KeyValueStore<Object, Object> store = place.keyValues();
        if (!isQuestion(in)) {
            store.put(in.key(), in.value());
            return;
        }
        final String[] words = Functions.text(in.value()).substring(1).split(":", -1);
        switch (words[0]) {
            case "get" -> in.answer(words[1], store.get(words[1]));
            case "delete" -> in.answer(words[1], store.delete(words[1]));
            case "putIfAbsent" -> in.answer(words[1], store.putIfAbsent(words[1], words[2]));
            case "putAll" -> store.putAll(List.of(KeyValue.pair(words[1], words[2]), KeyValue.pair(words[3], null)));
            case "all" -> in.answerAll(store.all());
            case "reverseAll" -> in.answerAll(store.reverseAll());
            case "range" -> in.answerAll(store.range(orNull(words[1]), orNull(words[2])));
            case "reverseRange" -> in.answerAll(store.reverseRange(orNull(words[1]), orNull(words[2])));
            case "prefix" -> in.answerAll(store.prefixScan(words[1], new StringSerializer()));
            default -> throw new IllegalArgumentException(words[0]);
        }
    }

    private static void runWindowScript(final Place place, final Input in) {
        final WindowStore<Object, Object> store = (WindowStore<Object, Object>) place.store;
        final long width = place.number(1);
        final long from = Math.max(0, in.time() - 2 * width);
        if (!isQuestion(in)) {
            final long start = in.time() / width * width;
            final Object before = in.value() == null ? null : store.fetch(in.key(), start);
            store.put(in.key(), before == null ? in.value() : before + "+" + in.value(), start);
            if (in.value() != null) {
                in.answer(in.key(), store.fetch(in.key(), start));
            }
            return;
        }
        switch (Functions.text(in.value())) {
            case "?fetch" -> in.answerAll(store.fetch(in.key(), from, in.time() + width));
            case "?backwardFetch" -> in.answerAll(store.backwardFetch(in.key(), from, in.time() + width));
            case "?all" -> in.answerAll(store.all());
            case "?backwardAll" -> in.answerAll(store.backwardAll());
            case "?fetchAll" -> in.answerAll(store.fetchAll(Math.max(0, in.time() - width), in.time()));
            case "?fetchRange" -> in.answerAll(store.fetch("a", "c", from, in.time()));
            default -> throw new IllegalArgumentException(in.value().toString());
        }
    }

    private static void runSessionScript(final Place place, final Input in) {
        final SessionStore<Object, Object> store = (SessionStore<Object, Object>) place.store;
        final long earliestEnd = Math.max(0, in.time() - place.number(1));
        final long latestStart = in.time() + place.number(1);
        if (isQuestion(in)) {
            switch (Functions.text(in.value())) {
                case "?fetch" -> in.answerAll(store.fetch(in.key()));
                case "?backwardFetch" -> in.answerAll(store.backwardFetch(in.key()));
                case "?find" -> in.answerAll(store.findSessions(in.key(), earliestEnd, latestStart));
                case "?backwardFind" -> in.answerAll(store.backwardFindSessions(in.key(), earliestEnd, latestStart));
                case "?findAll" -> in.answerAll(store.findSessions(earliestEnd, in.time()));
                case "?fetchRange" -> in.answerAll(store.fetch("a", "c"));
                case "?one" -> in.answer(in.key(), store.fetchSession(in.key(), in.time(), in.time()));
                default -> throw new IllegalArgumentException(in.value().toString());
            }
            return;
        }
        final List<KeyValue<Windowed<Object>, Object>> found = new ArrayList<>();
        try (KeyValueIterator<Windowed<Object>, Object> sessions = store.findSessions(in.key(), earliestEnd, latestStart)) {
            sessions.forEachRemaining(found::add);
        }
        found.forEach(each -> store.remove(each.key));
        if (in.value() == null) {
            return;
        }
        long start = in.time();
        long end = in.time();
        final List<String> values = new ArrayList<>();
        for (final KeyValue<Windowed<Object>, Object> each : found) {
            start = Math.min(start, each.key.window().start());
            end = Math.max(end, each.key.window().end());
            values.add(Functions.text(each.value));
        }
        final String merged = found.isEmpty() ? Functions.text(in.value()) : String.join("&", values) + "+" + in.value();
        store.put(new Windowed<>(in.key(), new SessionWindow(start, end)), merged);
        in.answer(in.key(), start + "-" + end + "=" + merged);
    }

    private static void runVersionedScript(final Place place, final Input in) {
        final VersionedKeyValueStore<Object, Object> store = (VersionedKeyValueStore<Object, Object>) place.store;
        switch (Functions.text(in.value())) {
            case "?get" -> answerVersion(in, store.get(in.key()));
            case "?asof" -> answerVersion(in, store.get(in.key(), in.time()));
            case "?delete" -> answerVersion(in, store.delete(in.key(), in.time()));
            default -> in.answer(in.key(), store.put(in.key(), in.value(), in.time()));
        }
    }

    private static void answerVersion(final Input in, final VersionedRecord<Object> found) {
        in.answer(in.key(), found == null ? null : Functions.text(found.value()) + "@" + found.timestamp() + "-"
            + found.validTo().map(String::valueOf).orElse(""));
    }

    /** Of `process`, of global stores. */
    static final class OfCase implements Processor<Object, Object, Object, Object> {
        private final JsonNode written;
        private final List<String> stores;
        private ProcessorContext<Object, Object> context;
        private Place place;

        OfCase(final JsonNode written, final List<String> stores) {
            this.written = written;
            this.stores = stores;
        }

        @Override
        public void init(final ProcessorContext<Object, Object> given) {
            context = given;
            place = new Place(written, given, stores);
            final String kind = written.get(0).asText();
            if (kind.contains("Tick")) {
                final PunctuationType type = kind.equals("wallTick") ? PunctuationType.WALL_CLOCK_TIME : PunctuationType.STREAM_TIME;
                final Duration every = Duration.ofMillis(place.number(1));
                place.punctuation = written.has(3)
                    ? given.schedule(Instant.ofEpochMilli(place.number(3)), every, type, this::punctuate)
                    : given.schedule(every, type, this::punctuate);
            }
        }

        private void punctuate(final long time) {
            final long recordTime = Math.max(0, time);
            context.forward(new Record<>("tick", place.seen + "@" + time, recordTime));
            if (place.store != null) {
                try (KeyValueIterator<Object, Object> entries = place.keyValues().all()) {
                    entries.forEachRemaining(each ->
                        context.forward(new Record<>(each.key, Functions.text(each.value), recordTime)));
                }
            }
            place.seen = 0;
            place.fired++;
            if (0 < place.number(2) && place.number(2) <= place.fired) {
                place.punctuation.cancel();
            }
        }

        @Override
        public void process(final Record<Object, Object> record) {
            final Output output = (key, value, time, headers, child) ->
                context.forward(new Record<>(key, value, time, headers), child);
            TABLE.get(written.get(0).asText()).accept(
                place, new Input(record.key(), record.value(), record.timestamp(), record.headers(), output));
        }
    }

    /** Of `processValues`. */
    static final class OfCaseWithFixedKey implements FixedKeyProcessor<Object, Object, Object> {
        private final JsonNode written;
        private final List<String> stores;
        private FixedKeyProcessorContext<Object, Object> context;
        private Place place;

        OfCaseWithFixedKey(final JsonNode written, final List<String> stores) {
            this.written = written;
            this.stores = stores;
        }

        @Override
        public void init(final FixedKeyProcessorContext<Object, Object> given) {
            context = given;
            place = new Place(written, given, stores);
        }

        @Override
        public void process(final FixedKeyRecord<Object, Object> record) {
            final Output output = (key, value, time, headers, child) ->
                context.forward(record.withValue(value).withTimestamp(time).withHeaders(headers), child);
            TABLE.get(written.get(0).asText()).accept(
                place, new Input(record.key(), record.value(), record.timestamp(), record.headers(), output));
        }
    }

    /** Of `transformValues`. */
    static ValueTransformerWithKeySupplier<Object, Object, Object> transformers(final JsonNode written, final List<String> stores) {
        return () -> new ValueTransformerWithKey<>() {
            private KeyValueStore<Object, Object> store;

            @Override
            public void init(final org.apache.kafka.streams.processor.ProcessorContext context) {
                if (!stores.isEmpty()) {
                    store = context.getStateStore(stores.get(0));
                }
            }

            @Override
            public Object transform(final Object key, final Object value) {
                if (written.get(0).asText().equals("value")) {
                    return Functions.value(written.get(1), key, value);
                }
                final long count = Functions.num(store.get(key)) + 1;
                store.put(key, count);
                return value == null ? null : count + "x" + Functions.text(value);
            }

            @Override
            public void close() { }
        };
    }
}
