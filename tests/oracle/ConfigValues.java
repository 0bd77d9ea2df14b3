package org.apache.kafka.streams;

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
import java.util.List;
import java.util.Map;
import org.apache.kafka.streams.processor.assignment.AssignmentConfigs;

/**
 * One value of a config as StreamsConfig reads it: {"key": .., "value": ..} in, the same with "output" out, which has the
 * value as read, or "refused". Tags that the value names are client tags of the application, as StreamsConfig demands.
 */
final class ConfigValues {
    private static final ObjectMapper JSON = JsonMapper.builder().enable(JsonWriteFeature.ESCAPE_NON_ASCII).build();

    private ConfigValues() { }

    public static void main(final String[] arguments) throws Exception {
        final PrintStream answers = new PrintStream(new FileOutputStream(FileDescriptor.out), true, StandardCharsets.US_ASCII);
        final BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String text = lines.readLine(); text != null; text = lines.readLine()) {
            final ObjectNode line = (ObjectNode) JSON.readTree(text);
            line.set("output", read(line.get("key").asText(), JSON.convertValue(line.get("value"), Object.class)));
            answers.println(JSON.writeValueAsString(line));
        }
    }

    private static JsonNode read(final String key, final Object value) {
        final Map<String, Object> configs = new HashMap<>();
        configs.put(StreamsConfig.APPLICATION_ID_CONFIG, "app");
        configs.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, "localhost:1");
        configs.put(key, value);
        if (key.equals(StreamsConfig.RACK_AWARE_ASSIGNMENT_TAGS_CONFIG)) {
            tags(value).forEach(tag -> configs.put(StreamsConfig.CLIENT_TAG_PREFIX + tag, "value"));
        }
        try {
            final StreamsConfig read = new StreamsConfig(configs);
            AssignmentConfigs.of(read);
            return JSON.createObjectNode().set("read", JSON.valueToTree(read.values().get(key)));
        } catch (final RuntimeException refused) {
            return JSON.createObjectNode().put("refused", refused.getClass().getSimpleName());
        }
    }

    private static List<String> tags(final Object value) {
        final List<String> tags = new ArrayList<>();
        if (value instanceof List<?> list) {
            list.forEach(tag -> tags.add(tag.toString()));
        } else if (value != null) {
            List.of(value.toString().trim().split(",")).forEach(tag -> tags.add(tag.trim()));
        }
        tags.removeIf(String::isEmpty);
        return tags;
    }
}
