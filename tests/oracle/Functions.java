package org.apache.kafka.streams;

import com.fasterxml.jackson.databind.JsonNode;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.processor.FailOnInvalidTimestamp;
import org.apache.kafka.streams.processor.LogAndSkipOnInvalidTimestamp;
import org.apache.kafka.streams.processor.RecordContext;
import org.apache.kafka.streams.processor.TimestampExtractor;
import org.apache.kafka.streams.processor.UsePartitionTimeOnInvalidTimestamp;

/**
 * User functions by the names that cases write: ["name", parameters...]. Each has a twin in
 * `tests/dsl_vectors/functions.py`.
 */
final class Functions {
    /** A failing user function throws it. */
    static final class Boom extends RuntimeException {
        Boom(final Object value) {
            super("boom: " + text(value));
        }
    }

    /** The arguments of a call behind the written parameters `p`, of which the name is the first. */
    interface OfTwo<T> {
        T apply(JsonNode p, Object key, Object value);
    }

    interface OfThree {
        Object apply(JsonNode p, Object key, Object first, Object second);
    }

    // what the functions are made of

    static String text(final Object value) {
        if (value instanceof byte[] bytes) {
            return HexFormat.of().formatHex(bytes);
        }
        if (value instanceof Windowed<?> windowed) {
            return text(windowed.key()) + "@" + windowed.window().start() + "-" + windowed.window().end();
        }
        return String.valueOf(value);
    }

    static long hash(final Object value) {
        if (value == null || value instanceof Long) {
            return value == null ? 0 : (Long) value;
        }
        long sum = 0;
        for (final byte each : text(value).getBytes(StandardCharsets.UTF_8)) {
            sum += each & 0xff;
        }
        return sum;
    }

    static long rest(final Object value, final JsonNode modulus) {
        return Math.floorMod(hash(value), modulus.asLong());
    }

    static long length(final Object value) {
        return value == null ? 0 : text(value).codePoints().count();
    }

    static long num(final Object value) {
        return value instanceof Long number ? number : length(value);
    }

    static Long number(final Object value) {
        if (value == null || value instanceof Long) {
            return (Long) value;
        }
        return text(value).matches("-?[0-9]{1,15}") ? Long.valueOf(text(value)) : null;
    }

    static String upper(final Object value) {
        final StringBuilder letters = new StringBuilder();
        for (final char letter : text(value).toCharArray()) {
            letters.append('a' <= letter && letter <= 'z' ? Character.toUpperCase(letter) : letter);
        }
        return letters.toString();
    }

    static Object firstLetter(final Object value) {
        return length(value) == 0 ? null : text(value).substring(0, text(value).offsetByCodePoints(0, 1));
    }

    static boolean has(final Object value, final JsonNode part) {
        return value != null && text(value).contains(part.asText());
    }

    /** The value, unless it has the text on which the function fails. */
    static Object checked(final JsonNode p, final Object value) {
        if (has(value, p.get(1))) {
            throw new Boom(value);
        }
        return value;
    }

    static List<Object> words(final Object value) {
        final List<Object> words = new ArrayList<>();
        for (final String word : value == null ? new String[0] : text(value).split(" ")) {
            if (!word.isEmpty()) {
                words.add(word);
            }
        }
        return words;
    }

    /** A number, a text or null of a case. */
    static Object constant(final JsonNode node) {
        return node == null || node.isNull() ? null : node.isNumber() ? (Object) node.asLong() : node.asText();
    }

    private static String added(final Object sum, final Object value) {
        return sum == null ? text(value) : text(sum) + "+" + text(value);
    }

    private static String both(final Object left, final Object right) {
        return text(left) + "/" + text(right);
    }

    // of key and value

    private static final Map<String, OfTwo<Object>> VALUES = Map.ofEntries(
        Map.entry("identity", (p, k, v) -> v),
        Map.entry("upper", (p, k, v) -> v == null ? null : upper(v)),
        Map.entry("reverse", (p, k, v) -> v == null ? null : new StringBuilder(text(v)).reverse().toString()),
        Map.entry("append", (p, k, v) -> v == null ? null : text(v) + p.get(1).asText()),
        Map.entry("orElse", (p, k, v) -> v == null ? constant(p.get(1)) : v),
        Map.entry("length", (p, k, v) -> length(v)),
        Map.entry("number", (p, k, v) -> number(v)),
        Map.entry("toText", (p, k, v) -> v == null ? null : text(v)),
        Map.entry("add", (p, k, v) -> v == null ? null : num(v) + p.get(1).asLong()),
        Map.entry("withKey", (p, k, v) -> text(k) + ":" + text(v)),
        Map.entry("nullIf", (p, k, v) -> rest(v, p.get(1)) == p.get(2).asLong() ? null : v),
        Map.entry("hash", (p, k, v) -> rest(v, p.get(1))),
        Map.entry("throwOn", (p, k, v) -> checked(p, v)),
        Map.entry("numberOrThrow", (p, k, v) -> {
            if (number(v) == null) {
                throw new Boom(v);
            }
            return number(v);
        })
    );

    private static final Map<String, OfTwo<Object>> KEYS = Map.ofEntries(
        Map.entry("firstLetter", (p, k, v) -> firstLetter(v)),
        Map.entry("keyFirstLetter", (p, k, v) -> firstLetter(k)),
        Map.entry("valueAsKey", (p, k, v) -> v == null ? null : text(v)),
        Map.entry("bucket", (p, k, v) -> "b" + rest(v, p.get(1))),
        Map.entry("constant", (p, k, v) -> constant(p.get(1))),
        Map.entry("keyUpper", (p, k, v) -> k == null ? null : upper(k)),
        Map.entry("keyText", (p, k, v) -> k == null ? null : text(k)),
        Map.entry("beforeColon", (p, k, v) ->
            v == null || text(v).indexOf(':') < 0 ? null : text(v).substring(0, text(v).indexOf(':'))),
        Map.entry("nullIfKey", (p, k, v) -> rest(k, p.get(1)) == p.get(2).asLong() ? null : k),
        Map.entry("keyAndFirstLetter", (p, k, v) -> v == null ? null : text(k) + "." + text(firstLetter(v))),
        Map.entry("throwOn", (p, k, v) -> {
            checked(p, v);
            return k;
        })
    );

    private static final Map<String, OfTwo<Boolean>> PREDICATES = Map.ofEntries(
        Map.entry("valueHash", (p, k, v) -> rest(v, p.get(1)) == p.get(2).asLong()),
        Map.entry("keyHash", (p, k, v) -> rest(k, p.get(1)) == p.get(2).asLong()),
        Map.entry("lengthAtLeast", (p, k, v) -> length(v) >= p.get(1).asLong()),
        Map.entry("valueNotNull", (p, k, v) -> v != null),
        Map.entry("valueIsNull", (p, k, v) -> v == null),
        Map.entry("keyNotNull", (p, k, v) -> k != null),
        Map.entry("contains", (p, k, v) -> has(v, p.get(1))),
        Map.entry("always", (p, k, v) -> true),
        Map.entry("never", (p, k, v) -> false),
        Map.entry("throwOn", (p, k, v) -> checked(p, v) == v)
    );

    private static final Map<String, OfTwo<List<Object>>> FLAT_VALUES = Map.of(
        "words", (p, k, v) -> words(v),
        "none", (p, k, v) -> List.of(),
        "copies", (p, k, v) -> {
            final List<Object> copies = new ArrayList<>();
            for (long number = 0; number < p.get(1).asLong(); number++) {
                copies.add(text(v) + "#" + number);
            }
            return copies;
        }
    );

    private static final Map<String, OfTwo<List<KeyValue<Object, Object>>>> FLAT_PAIRS = Map.of(
        "none", (p, k, v) -> List.of(),
        "perWord", (p, k, v) -> words(v).stream().map(word -> KeyValue.pair(word, v)).toList(),
        "nullKeys", (p, k, v) -> List.of(KeyValue.pair(null, v), KeyValue.pair(k, v)),
        "spread", (p, k, v) -> {
            final List<KeyValue<Object, Object>> spread = new ArrayList<>();
            for (long number = 0; number < p.get(1).asLong(); number++) {
                spread.add(KeyValue.pair(text(k) + "#" + number, v));
            }
            return spread;
        }
    );

    // of key, value and aggregate so far; a reducer has no key

    private static final Map<String, OfThree> AGGREGATORS = Map.ofEntries(
        Map.entry("concat", (p, k, v, so) -> added(so, v)),
        Map.entry("minus", (p, k, v, so) -> (so == null ? "" : text(so)) + "-" + text(v)),
        Map.entry("sum", (p, k, v, so) -> num(so) + num(v)),
        Map.entry("subtract", (p, k, v, so) -> num(so) - num(v)),
        Map.entry("count", (p, k, v, so) -> num(so) + 1),
        Map.entry("uncount", (p, k, v, so) -> num(so) - 1),
        Map.entry("keepLongest", (p, k, v, so) -> so == null || length(v) > length(so) ? v : so),
        Map.entry("max", (p, k, v, so) -> so == null || num(v) > num(so) ? v : so),
        Map.entry("last", (p, k, v, so) -> v),
        Map.entry("first", (p, k, v, so) -> so == null ? v : so),
        Map.entry("keyed", (p, k, v, so) -> text(so) + "+" + text(k) + "=" + text(v)),
        Map.entry("resetOn", (p, k, v, so) -> has(v, p.get(1)) ? null : added(so, v)),
        Map.entry("nullAtSum", (p, k, v, so) ->
            Math.floorMod(num(so) + num(v), p.get(1).asLong()) == 0 ? null : (Object) (num(so) + num(v))),
        Map.entry("throwOn", (p, k, v, so) -> added(so, checked(p, v)))
    );

    // of key and two aggregates

    private static final Map<String, OfThree> MERGERS = Map.of(
        "joinText", (p, k, a, b) -> a == null ? b : b == null ? a : text(a) + "&" + text(b),
        "sum", (p, k, a, b) -> num(a) + num(b),
        "null", (p, k, a, b) -> null
    );

    // of key, left and right value

    private static final Map<String, OfThree> JOINERS = Map.of(
        "pairText", (p, k, left, right) -> both(left, right),
        "keyed", (p, k, left, right) -> text(k) + ":" + both(left, right),
        "left", (p, k, left, right) -> left,
        "right", (p, k, left, right) -> right,
        "nullIf", (p, k, left, right) ->
            rest(both(left, right), p.get(1)) == p.get(2).asLong() ? null : both(left, right),
        "numSum", (p, k, left, right) -> num(left) + num(right)
    );

    private static <T> T named(final Map<String, T> functions, final JsonNode written) {
        final T found = functions.get(written.get(0).asText());
        if (found == null) {
            throw new IllegalArgumentException("no function " + written);
        }
        return found;
    }

    static Object value(final JsonNode f, final Object key, final Object value) {
        return named(VALUES, f).apply(f, key, value);
    }

    static Object key(final JsonNode f, final Object key, final Object value) {
        return named(KEYS, f).apply(f, key, value);
    }

    static boolean predicate(final JsonNode f, final Object key, final Object value) {
        return named(PREDICATES, f).apply(f, key, value);
    }

    static List<Object> flatValues(final JsonNode f, final Object key, final Object value) {
        return named(FLAT_VALUES, f).apply(f, key, value);
    }

    static List<KeyValue<Object, Object>> flatPairs(final JsonNode f, final Object key, final Object value) {
        return named(FLAT_PAIRS, f).apply(f, key, value);
    }

    /** ["pair", key function, value function], or ["null"]. */
    static KeyValue<Object, Object> pair(final JsonNode f, final Object key, final Object value) {
        return f.size() < 3 ? null : KeyValue.pair(key(f.get(1), key, value), value(f.get(2), key, value));
    }

    static Object aggregate(final JsonNode f, final Object key, final Object value, final Object soFar) {
        return named(AGGREGATORS, f).apply(f, key, value, soFar);
    }

    static Object merge(final JsonNode f, final Object key, final Object one, final Object other) {
        return named(MERGERS, f).apply(f, key, one, other);
    }

    static Object join(final JsonNode f, final Object key, final Object left, final Object right) {
        return named(JOINERS, f).apply(f, key, left, right);
    }

    static String topic(final JsonNode f, final Object key, final Object value, final RecordContext record) {
        return switch (f.get(0).asText()) {
            case "byHash" -> f.get(2).asText() + rest(value, f.get(1));
            case "byKeyHash" -> f.get(2).asText() + rest(key, f.get(1));
            case "byRecordTopic" -> f.get(1).asText() + record.topic();
            case "byTimestamp" -> f.get(2).asText() + record.timestamp() % f.get(1).asLong();
            default -> throw new IllegalArgumentException("no topic extractor " + f);
        };
    }

    static TimestampExtractor timestampExtractor(final JsonNode f) {
        return switch (f.get(0).asText()) {
            case "negativeOn" -> (record, partitionTime) -> has(record.value(), f.get(1)) ? -1 : record.timestamp();
            case "plus" -> (record, partitionTime) -> record.timestamp() + f.get(1).asLong();
            case "partitionTime" -> (record, partitionTime) -> partitionTime < 0 ? record.timestamp() : partitionTime;
            case "valueNumber" -> (record, partitionTime) ->
                number(record.value()) == null ? partitionTime : number(record.value());
            case "FailOnInvalidTimestamp" -> new FailOnInvalidTimestamp();
            case "LogAndSkipOnInvalidTimestamp" -> new LogAndSkipOnInvalidTimestamp();
            case "UsePartitionTimeOnInvalidTimestamp" -> new UsePartitionTimeOnInvalidTimestamp();
            default -> throw new IllegalArgumentException("no timestamp extractor " + f);
        };
    }
}
