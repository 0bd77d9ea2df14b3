package org.apache.kafka.streams.processor.internals;

import com.fasterxml.jackson.databind.JsonNode;
import java.lang.reflect.Field;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.processor.TaskId;
import org.apache.kafka.streams.processor.assignment.ApplicationState;
import org.apache.kafka.streams.processor.assignment.AssignmentConfigs;
import org.apache.kafka.streams.processor.assignment.KafkaStreamsState;
import org.apache.kafka.streams.processor.assignment.ProcessId;
import org.apache.kafka.streams.processor.assignment.TaskAssignmentUtils;
import org.apache.kafka.streams.processor.assignment.TaskAssignor;
import org.apache.kafka.streams.processor.assignment.TaskInfo;
import org.apache.kafka.streams.processor.assignment.TaskTopicPartition;
import org.apache.kafka.streams.processor.assignment.assignors.StickyTaskAssignor;
import org.apache.kafka.streams.processor.internals.StreamsPartitionAssignor.ClientMetadata;
import org.apache.kafka.streams.processor.internals.assignment.ClientState;
import org.apache.kafka.streams.processor.internals.assignment.DefaultApplicationState;
import org.apache.kafka.streams.processor.internals.assignment.DefaultTaskInfo;
import org.apache.kafka.streams.processor.internals.assignment.DefaultTaskTopicPartition;
import org.apache.kafka.streams.processor.internals.assignment.RackUtils;

/** Assignors of the public interface (task.assignor.class): which class a line names, and one asked without a leader. */
final class PublicInterface {
    private static final String STICKY = "StickyTaskAssignor";
    private static final String OURS = "tests.oracle.custom_assignors:";

    private PublicInterface() { }

    static boolean isNamed(final String assignor) {
        return assignor.equals(STICKY) || assignor.startsWith(OURS);
    }

    /** Kafka's own class; with standbys, in the one order of many that can be compared. */
    static Class<? extends TaskAssignor> classOf(final String assignor, final JsonNode configs) {
        if (assignor.equals(STICKY)) {
            final boolean withStandbys = configs.path(StreamsConfig.NUM_STANDBY_REPLICAS_CONFIG).asInt(0) > 0;
            return withStandbys ? StickyInOneOrder.class : StickyTaskAssignor.class;
        }
        try {
            return Class.forName(ofJava(assignor)).asSubclass(TaskAssignor.class);
        } catch (final ClassNotFoundException missing) {
            throw new IllegalArgumentException("no such task assignor: " + assignor, missing);
        }
    }

    /** Messages name the class; a line has ours under its Python name. */
    static String asInTheLine(final String message, final String assignor) {
        return assignor.startsWith(OURS) ? message.replace(ofJava(assignor), assignor) : message;
    }

    private static String ofJava(final String assignor) {
        return CustomAssignors.class.getName() + "$" + assignor.substring(OURS.length());
    }

    /** What the leader does with an assignor and its answer. One with an error is not for a placement. */
    static void place(final TaskAssignor assignor, final ApplicationState state, final Map<ProcessId, ClientState> clients) {
        final TaskAssignor.TaskAssignment answer = assignor.assign(state);
        final TaskAssignor.AssignmentError error = TaskAssignmentUtils.validateTaskAssignment(state, answer);
        if (error != TaskAssignor.AssignmentError.NONE) {
            throw new IllegalArgumentException("the answer has the error " + error);
        }
        answer.assignment().forEach(each -> clients.get(each.processId()).setAssignedTasks(each));
    }

    static ApplicationState state(
        final AssignmentConfigs configs, final Map<TaskId, TaskInfo> tasks, final Map<ProcessId, ClientState> clients,
        final Map<ProcessId, Map<String, Optional<String>>> racks) throws ReflectiveOperationException {
        final Field stateOfClient = ClientMetadata.class.getDeclaredField("state");
        stateOfClient.setAccessible(true);
        final Map<ProcessId, ClientMetadata> metadata = new HashMap<>();
        for (final Map.Entry<ProcessId, ClientState> client : clients.entrySet()) {
            final Optional<String> rack = racks.get(client.getKey()).values().iterator().next();
            final ClientMetadata made =
                new ClientMetadata(client.getKey(), null, client.getValue().clientTags(), rack);
            stateOfClient.set(made, client.getValue());
            metadata.put(client.getKey(), made);
        }
        return new DefaultApplicationState(configs, tasks, metadata) {
            /** The leader fills this map as it filled that of its ClientStates; with crowded buckets, a copy has another order. */
            @Override
            public Map<ProcessId, KafkaStreamsState> kafkaStreamsStates(final boolean computeTaskLags) {
                final Map<ProcessId, KafkaStreamsState> states = super.kafkaStreamsStates(computeTaskLags);
                final Map<ProcessId, KafkaStreamsState> inTheLeadersOrder = new LinkedHashMap<>();
                clients.keySet().forEach(process -> inTheLeadersOrder.put(process, states.get(process)));
                return inTheLeadersOrder;
            }
        };
    }

    /** As the leader makes them. A line without partitions only says which tasks have a changelog. */
    static Map<TaskId, TaskInfo> infos(
        final Set<TaskId> tasks, final Set<TaskId> stateful, final Map<TaskId, Set<TopicPartition>> sources,
        final Map<TaskId, Set<TopicPartition>> changelogs, final Cluster cluster, final InternalTopicManager described) {
        final Set<DefaultTaskTopicPartition> all = new HashSet<>();
        final Map<TaskId, TaskInfo> infos = new HashMap<>();
        for (final TaskId task : tasks) {
            final Set<TopicPartition> read = sources.getOrDefault(task, Set.of());
            final Set<TopicPartition> logged = changelogs.getOrDefault(
                task, stateful.contains(task) ? Set.of(new TopicPartition("changelog", task.partition())) : Set.of());
            final Set<TaskTopicPartition> partitions = new HashSet<>();
            final List<TopicPartition> both = new ArrayList<>(read);
            both.addAll(logged);
            both.forEach(each -> {
                final DefaultTaskTopicPartition partition =
                    new DefaultTaskTopicPartition(each, read.contains(each), logged.contains(each), () -> { });
                all.add(partition);
                partitions.add(partition);
            });
            infos.put(task, new DefaultTaskInfo(task, stateful.contains(task), Set.of(), partitions));
        }
        RackUtils.annotateTopicPartitionsWithRackInfo(cluster, described, all);
        return infos;
    }

    /**
     * Kafka gathers the tasks to copy in a HashSet of objects without a hash code of their own, so their order is another
     * one in each run. Here each object has the hash code of its task: one of the orders that Kafka may take.
     */
    public static class StickyInOneOrder extends StickyTaskAssignor {
        public StickyInOneOrder() {
            super();
        }

        StickyInOneOrder(final boolean mustPreserveActiveTaskAssignment) {
            super(mustPreserveActiveTaskAssignment);
        }

        @Override
        public TaskAssignment assign(final ApplicationState state) {
            final Map<TaskId, TaskInfo> tasks = new LinkedHashMap<>();
            state.allTasks().forEach((task, info) -> tasks.put(task, new HashedTask(info)));
            return super.assign(new ApplicationState() {
                @Override
                public Map<ProcessId, KafkaStreamsState> kafkaStreamsStates(final boolean computeTaskLags) {
                    return state.kafkaStreamsStates(computeTaskLags);
                }

                @Override
                public AssignmentConfigs assignmentConfigs() {
                    return state.assignmentConfigs();
                }

                @Override
                public Map<TaskId, TaskInfo> allTasks() {
                    return Collections.unmodifiableMap(tasks);
                }
            });
        }
    }

    private record HashedTask(TaskInfo info) implements TaskInfo {
        @Override
        public TaskId id() {
            return info.id();
        }

        @Override
        public boolean isStateful() {
            return info.isStateful();
        }

        @Override
        public Set<String> stateStoreNames() {
            return info.stateStoreNames();
        }

        @Override
        public Set<TaskTopicPartition> topicPartitions() {
            return info.topicPartitions();
        }

        @Override
        public boolean equals(final Object other) {
            return other instanceof HashedTask && ((HashedTask) other).id().equals(id());
        }

        @Override
        public int hashCode() {
            return id().hashCode();
        }
    }
}
