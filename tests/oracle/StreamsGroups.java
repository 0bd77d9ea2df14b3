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
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeSet;

/**
 * A broker's own task assignor for streams groups (KIP-1071) as a function: a line of streams_group/1 in, the same line
 * with "output" out. It is in the jar of the group coordinator, which comes with that of the broker.
 *
 * Members are put into a HashMap in the order of the line, as TargetAssignmentBuilder puts them in the order of the group.
 */
final class StreamsGroups {
    private static final ObjectMapper JSON = JsonMapper.builder().enable(JsonWriteFeature.ESCAPE_NON_ASCII).build();

    public static void main(final String[] arguments) throws Exception {
        final PrintStream answers = new PrintStream(new FileOutputStream(FileDescriptor.out), true, StandardCharsets.US_ASCII);
        System.setOut(System.err);
        final BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            answers.println(JSON.writeValueAsString(answer((ObjectNode) JSON.readTree(line))));
        }
    }

    private static ObjectNode answer(final ObjectNode line) {
        try {
            line.set("output", assigned(line));
            return line;
        } catch (final RuntimeException error) {
            error.printStackTrace();
            return JSON.createObjectNode().put("failed", error.toString());
        }
    }

    private static ObjectNode assigned(final ObjectNode line) {
        final Map<String, AssignmentMemberSpec> members = new HashMap<>();
        line.get("members").properties().forEach(member -> members.put(member.getKey(), member(member.getValue())));
        final GroupSpec group = new GroupSpecImpl(
            members,
            Map.of("num.standby.replicas", line.get("num_standby_replicas").asText())
        );
        final GroupAssignment assignment = new StickyTaskAssignor().assign(group, topology(line.get("subtopologies")));
        final ObjectNode output = JSON.createObjectNode();
        line.get("members").fieldNames().forEachRemaining(member -> {
            final MemberAssignment tasks = assignment.members().get(member);
            final ObjectNode ofMember = output.putObject(member);
            ofMember.set("active", names(tasks.activeTasks()));
            ofMember.set("standby", names(tasks.standbyTasks()));
            ofMember.set("warm_up", names(tasks.warmupTasks()));
        });
        return output;
    }

    private static AssignmentMemberSpec member(final JsonNode fields) {
        return new AssignmentMemberSpec(
            Optional.empty(),
            Optional.empty(),
            tasks(fields.get("active")),
            tasks(fields.get("standby")),
            Map.of(),
            fields.get("process_id").asText(),
            Map.of(),
            Map.of(),
            Map.of()
        );
    }

    private static Map<String, Set<Integer>> tasks(final JsonNode names) {
        final Map<String, Set<Integer>> bySubtopology = new HashMap<>();
        names.forEach(name -> {
            final String[] parts = name.asText().split("_");
            bySubtopology.computeIfAbsent(parts[0], key -> new HashSet<>()).add(Integer.valueOf(parts[1]));
        });
        return bySubtopology;
    }

    private static JsonNode names(final Map<String, Set<Integer>> bySubtopology) {
        final Set<String> names = new TreeSet<>();
        bySubtopology.forEach((subtopology, partitions) -> partitions.forEach(number -> names.add(subtopology + "_" + number)));
        return JSON.valueToTree(names);
    }

    private static TopologyDescriber topology(final JsonNode subtopologies) {
        final List<String> names = new ArrayList<>();
        subtopologies.fieldNames().forEachRemaining(names::add);
        return new TopologyDescriber() {
            @Override
            public List<String> subtopologies() {
                return names;
            }

            @Override
            public int maxNumInputPartitions(final String subtopology) {
                return subtopologies.get(subtopology).get("partitions").asInt();
            }

            @Override
            public boolean isStateful(final String subtopology) {
                return subtopologies.get(subtopology).get("stateful").asBoolean();
            }
        };
    }
}
