package org.apache.kafka.coordinator.group.streams.assignor;

import com.fasterxml.jackson.core.json.JsonWriteFeature;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.json.JsonMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.lang.reflect.RecordComponent;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeSet;
import java.util.function.BiFunction;
import java.util.function.Function;
import java.util.stream.Stream;

/**
 * A broker's own task assignor for streams groups (KIP-1071) as a function: a line of streams_group/1 in, the same line
 * with "output" out, or "error" if the assignor throws. It is in the jar of the group coordinator, which comes with that of
 * the broker.
 *
 * <p>4.4 made the assignor's interfaces public, so they moved to another package, and changed some of them and the classes of
 * their values. The types that only one release has are therefore found at run time, and this file compiles with both.
 *
 * <p>Members are put into a HashMap in the order of the line, as TargetAssignmentBuilder puts them in the order of the group.
 */
final class StreamsGroups {
    private static final ObjectMapper JSON = JsonMapper.builder().enable(JsonWriteFeature.ESCAPE_NON_ASCII).build();
    private static final Method ASSIGN = Stream.of(StickyTaskAssignor.class.getDeclaredMethods())
        .filter(method -> method.getName().equals("assign")).findFirst().orElseThrow();
    private static final boolean IS_4_3 = ASSIGN.getParameterTypes()[0].getPackage() == StickyTaskAssignor.class.getPackage();
    private static final Class<?> MEMBER = member(IS_4_3 ? "AssignmentMemberSpec" : "MemberMetadataAndStateImpl");

    public static void main(final String[] arguments) throws Exception {
        final PrintStream answers = new PrintStream(new FileOutputStream(FileDescriptor.out), true, StandardCharsets.US_ASCII);
        System.setOut(System.err);
        final BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            answers.println(JSON.writeValueAsString(answer((ObjectNode) JSON.readTree(line))));
        }
    }

    private static Class<?> member(final String name) {
        try {
            return Class.forName(StickyTaskAssignor.class.getPackageName() + "." + name);
        } catch (final ClassNotFoundException error) {
            throw new IllegalStateException(error);
        }
    }

    private static ObjectNode answer(final ObjectNode line) {
        try {
            line.remove(List.of("output", "error"));
            assign(line);
            return line;
        } catch (final ReflectiveOperationException | RuntimeException error) {
            error.printStackTrace();
            return JSON.createObjectNode().put("failed", error.toString());
        }
    }

    private static void assign(final ObjectNode line) throws ReflectiveOperationException {
        final Map<String, Object> members = new HashMap<>();
        for (final Map.Entry<String, JsonNode> member : line.get("members").properties()) {
            members.put(member.getKey(), record(MEMBER, part -> partOfMember(part, member.getValue())));
        }
        final Object group = record(GroupSpecImpl.class, part -> part.getName().equals("members") ? members : configs(part, line));
        final Object topology = topology(ASSIGN.getParameterTypes()[1], line.get("subtopologies"));
        final Object assignment;
        try {
            assignment = ASSIGN.invoke(new StickyTaskAssignor(), group, topology);
        } catch (final InvocationTargetException thrown) {
            final Throwable error = thrown.getCause();
            line.put("error", error.getClass().getSimpleName() + ": " + error.getMessage());
            return;
        }
        line.set("output", output(line.get("members"), assignment));
    }

    private static ObjectNode output(final JsonNode members, final Object assignment) throws ReflectiveOperationException {
        final Map<?, ?> byMember = (Map<?, ?>) part(assignment, "members");
        final ObjectNode output = JSON.createObjectNode();
        for (final Map.Entry<String, JsonNode> member : members.properties()) {
            final Object tasks = byMember.get(member.getKey());
            final ObjectNode ofMember = output.putObject(member.getKey());
            ofMember.set("active", names(part(tasks, "activeTasks")));
            ofMember.set("standby", names(part(tasks, "standbyTasks")));
            ofMember.set("warm_up", IS_4_3 ? names(part(tasks, "warmupTasks")) : JSON.createArrayNode());
        }
        return output;
    }

    /** A record by the names of its components: both releases have the same names for the same values. */
    private static <T> Object record(final Class<T> type, final Function<RecordComponent, Object> value)
        throws ReflectiveOperationException {
        final RecordComponent[] parts = type.getRecordComponents();
        final Class<?>[] types = Stream.of(parts).map(RecordComponent::getType).toArray(Class<?>[]::new);
        return type.getDeclaredConstructor(types).newInstance(Stream.of(parts).map(value).toArray());
    }

    private static Object part(final Object value, final String name) throws ReflectiveOperationException {
        return value.getClass().getMethod(name).invoke(value);
    }

    private static Object partOfMember(final RecordComponent part, final JsonNode fields) {
        return switch (part.getName()) {
            case "processId" -> fields.get("process_id").asText();
            case "instanceId" -> Optional.ofNullable(fields.path("instance_id").textValue());
            case "rackId" -> Optional.ofNullable(fields.path("rack").textValue());
            case "clientTags" -> tags(fields.path("tags"));
            case "activeTasks" -> tasks(fields.get("active"));
            case "standbyTasks" -> tasks(fields.get("standby"));
            case "warmupTasks" -> tasks(fields.path("warm_up"));
            // 4.3 has maps by another class here, and its brokers always give empty ones.
            case "taskOffsets" -> IS_4_3 ? Map.of() : offsets(fields.path("task_offsets"));
            case "taskEndOffsets" -> IS_4_3 ? Map.of() : offsets(fields.path("task_end_offsets"));
            default -> throw new IllegalStateException("no value for " + part);
        };
    }

    /** Configs by name in 4.3, an interface since 4.4. */
    private static Object configs(final RecordComponent part, final JsonNode line) {
        final int replicas = line.get("num_standby_replicas").asInt();
        if (IS_4_3) {
            return Map.of("num.standby.replicas", String.valueOf(replicas));
        }
        final List<String> tags = new ArrayList<>();
        line.path("rack_aware_assignment_tags").forEach(tag -> tags.add(tag.asText()));
        return answering(part.getType(), (method, argument) -> switch (method) {
            case "numStandbyReplicas" -> replicas;
            case "rackAwareAssignmentTags" -> tags;
            default -> throw new UnsupportedOperationException(method);
        });
    }

    private static Object topology(final Class<?> describer, final JsonNode subtopologies) {
        final List<String> names = new ArrayList<>();
        subtopologies.fieldNames().forEachRemaining(names::add);
        return answering(describer, (method, argument) -> switch (method) {
            case "subtopologies" -> names;
            case "maxNumInputPartitions" -> subtopologies.get(argument).get("partitions").asInt();
            case "isStateful" -> subtopologies.get(argument).get("stateful").asBoolean();
            default -> throw new UnsupportedOperationException(method);
        });
    }

    /** `answer` gets the name of the method and its argument, if there is one. */
    private static Object answering(final Class<?> type, final BiFunction<String, String, Object> answer) {
        return Proxy.newProxyInstance(StreamsGroups.class.getClassLoader(), new Class<?>[] {type}, (proxy, method, arguments) ->
            answer.apply(method.getName(), arguments == null ? null : (String) arguments[0]));
    }

    private static Map<String, String> tags(final JsonNode values) {
        final Map<String, String> tags = new HashMap<>();
        values.properties().forEach(tag -> tags.put(tag.getKey(), tag.getValue().asText()));
        return tags;
    }

    private static Map<String, Set<Integer>> tasks(final JsonNode names) {
        final Map<String, Set<Integer>> bySubtopology = new HashMap<>();
        names.forEach(name -> {
            final String[] parts = name.asText().split("_");
            bySubtopology.computeIfAbsent(parts[0], key -> new HashSet<>()).add(Integer.valueOf(parts[1]));
        });
        return bySubtopology;
    }

    private static Map<String, Map<Integer, Long>> offsets(final JsonNode byTask) {
        final Map<String, Map<Integer, Long>> bySubtopology = new HashMap<>();
        byTask.properties().forEach(task -> {
            final String[] parts = task.getKey().split("_");
            bySubtopology.computeIfAbsent(parts[0], key -> new HashMap<>()).put(Integer.valueOf(parts[1]), task.getValue().asLong());
        });
        return bySubtopology;
    }

    private static JsonNode names(final Object bySubtopology) {
        final Set<String> names = new TreeSet<>();
        ((Map<?, ?>) bySubtopology).forEach((subtopology, partitions) ->
            ((Set<?>) partitions).forEach(number -> names.add(subtopology + "_" + number)));
        return JSON.valueToTree(names);
    }
}
