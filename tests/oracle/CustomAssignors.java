package org.apache.kafka.streams.processor.internals;

import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.SortedMap;
import java.util.SortedSet;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.UUID;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.GroupAssignment;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.GroupSubscription;
import org.apache.kafka.streams.errors.MissingSourceTopicException;
import org.apache.kafka.streams.errors.StreamsException;
import org.apache.kafka.streams.errors.TaskAssignmentException;
import org.apache.kafka.streams.processor.TaskId;
import org.apache.kafka.streams.processor.assignment.ApplicationState;
import org.apache.kafka.streams.processor.assignment.KafkaStreamsAssignment;
import org.apache.kafka.streams.processor.assignment.KafkaStreamsAssignment.AssignedTask;
import org.apache.kafka.streams.processor.assignment.KafkaStreamsState;
import org.apache.kafka.streams.processor.assignment.ProcessId;
import org.apache.kafka.streams.processor.assignment.TaskAssignmentUtils;
import org.apache.kafka.streams.processor.assignment.TaskAssignmentUtils.RackAwareOptimizationParams;
import org.apache.kafka.streams.processor.assignment.TaskAssignor;
import org.apache.kafka.streams.processor.assignment.TaskInfo;
import org.apache.kafka.streams.processor.assignment.TaskTopicPartition;

/**
 * Assignors as users write them for Kafka's public interface; `custom_assignors.py` has the same ones in Python.
 *
 * <p>Together they call everything that the interface has. What differs from group to group comes out of the state alone.
 */
public final class CustomAssignors {
    private CustomAssignors() { }

    /** Everybody keeps what it had, whatever has become of the tasks. */
    public static final class Identity implements TaskAssignor {
        @Override
        public TaskAssignment assign(final ApplicationState state) {
            return new TaskAssignment(TaskAssignmentUtils.identityAssignment(state).values());
        }
    }

    /** Tasks in turn to the processes, both sorted; standbys by Kafka's default. */
    public static class Spread implements TaskAssignor {
        @Override
        public TaskAssignment assign(final ApplicationState state) {
            final Map<ProcessId, KafkaStreamsAssignment> placed = spread(state);
            TaskAssignmentUtils.defaultStandbyTaskAssignment(state, placed);
            return new TaskAssignment(placed.values());
        }
    }

    /** The same, and copies are swapped to save traffic. Only the processes that got a task are named at first. */
    public static final class SpreadInRacks implements TaskAssignor {
        @Override
        public TaskAssignment assign(final ApplicationState state) {
            final Map<ProcessId, KafkaStreamsAssignment> placed = spread(state);
            placed.values().removeIf(each -> each.tasks().isEmpty());
            final RackAwareOptimizationParams all = RackAwareOptimizationParams.of(state);
            TaskAssignmentUtils.optimizeRackAwareActiveTasks(all, placed);
            TaskAssignmentUtils.defaultStandbyTaskAssignment(state, placed);
            TaskAssignmentUtils.optimizeRackAwareStandbyTasks(all, placed);
            return new TaskAssignment(placed.values());
        }
    }

    /** With costs of its own for each kind of task. */
    public static final class SpreadAtOtherCosts implements TaskAssignor {
        @Override
        public TaskAssignment assign(final ApplicationState state) {
            final Map<ProcessId, KafkaStreamsAssignment> placed = spread(state);
            final RackAwareOptimizationParams all = RackAwareOptimizationParams.of(state);
            TaskAssignmentUtils.optimizeRackAwareActiveTasks(all.forStatefulTasks().withTrafficCostOverride(10), placed);
            TaskAssignmentUtils.optimizeRackAwareActiveTasks(
                all.forStatelessTasks().withTrafficCostOverride(1).withNonOverlapCostOverride(0), placed);
            TaskAssignmentUtils.defaultStandbyTaskAssignment(state, placed);
            TaskAssignmentUtils.optimizeRackAwareStandbyTasks(
                all.withTrafficCostOverride(7).withNonOverlapCostOverride(3), placed);
            return new TaskAssignment(placed.values());
        }
    }

    /** Optimizes tasks of even partitions only, of standbys as well; of these Kafka may refuse it. */
    public static final class OptimizesSome implements TaskAssignor {
        @Override
        public TaskAssignment assign(final ApplicationState state) {
            final Map<ProcessId, KafkaStreamsAssignment> placed = spread(state);
            final SortedSet<TaskId> even = new TreeSet<>();
            final SortedSet<TaskId> copied = new TreeSet<>();
            state.allTasks().keySet().stream().filter(task -> task.partition() % 2 == 0).forEach(even::add);
            TaskAssignmentUtils.optimizeRackAwareActiveTasks(RackAwareOptimizationParams.of(state).forTasks(even), placed);
            TaskAssignmentUtils.defaultStandbyTaskAssignment(state, placed);
            placed.values().forEach(each -> each.tasks().values().stream()
                .filter(task -> task.type() == AssignedTask.Type.STANDBY && even.contains(task.id()))
                .forEach(task -> copied.add(task.id())));
            TaskAssignmentUtils.optimizeRackAwareStandbyTasks(RackAwareOptimizationParams.of(state).forTasks(copied), placed);
            return new TaskAssignment(placed.values());
        }
    }

    /** Each task to the process that is least behind, or that has the most of it; stateless ones to the first. */
    public static final class ByLag implements TaskAssignor {
        @Override
        public TaskAssignment assign(final ApplicationState state) {
            final SortedMap<ProcessId, KafkaStreamsState> processes = new TreeMap<>(state.kafkaStreamsStates(true));
            final Map<ProcessId, KafkaStreamsAssignment> placed = nothing(state);
            for (final TaskId task : new TreeSet<>(state.allTasks().keySet())) {
                ProcessId least = processes.firstKey();
                for (final KafkaStreamsState process : processes.values()) {
                    final Map<TaskId, Long> lags = process.statefulTasksToLagSums();
                    if (lags.containsKey(task)
                        && rank(process, task) < rank(processes.get(least), task)
                        && process.lagFor(task) == lags.get(task)) {
                        least = process.processId();
                    }
                }
                placed.get(least).assignTask(new AssignedTask(task, AssignedTask.Type.ACTIVE));
            }
            return new TaskAssignment(placed.values());
        }

        /** Its lag; a task that is first on one of its consumers counts as if it were a hundred nearer. */
        private static long rank(final KafkaStreamsState process, final TaskId task) {
            long rank = process.lagFor(task) / 2;
            for (final String consumer : process.consumerClientIds()) {
                final SortedSet<TaskId> byLag = process.prevTasksByLag(consumer);
                if (!byLag.isEmpty() && byLag.first().equals(task)) {
                    rank -= 100;
                }
            }
            return rank;
        }
    }

    /** The place of a task is a sum over all that the interface says of it and of the processes. */
    public static final class ByAllThatIsKnown implements TaskAssignor {
        @Override
        public TaskAssignment assign(final ApplicationState state) {
            final List<KafkaStreamsState> processes = new ArrayList<>(new TreeMap<>(state.kafkaStreamsStates(false)).values());
            final Map<ProcessId, KafkaStreamsAssignment> placed = nothing(state);
            int known = 0;
            for (final KafkaStreamsState process : processes) {
                known += process.numProcessingThreads() + 3 * process.clientTags().size() + process.consumerClientIds().size()
                    + 5 * process.previousActiveTasks().size() + 7 * process.previousStandbyTasks().size()
                    + process.hostInfo().map(host -> host.port() % 11).orElse(13)
                    + process.rackId().map(String::length).orElse(17);
            }
            final boolean withRacks = !state.assignmentConfigs().rackAwareAssignmentStrategy().equals("none");
            for (final TaskInfo task : state.allTasks().values()) {
                int sum = known + task.id().subtopology() + 2 * task.id().partition()
                    + 3 * task.stateStoreNames().size() + (task.isStateful() ? 1 : 0);
                for (final TaskTopicPartition read : task.topicPartitions()) {
                    sum += read.topicPartition().topic().length() + read.topicPartition().partition()
                        + (read.isSource() ? 19 : 0) + (read.isChangelog() ? 23 : 0);
                    if (withRacks) {
                        sum += read.rackIds().map(racks -> 29 * racks.size()).orElse(31);
                    }
                }
                placed.get(processes.get(sum % processes.size()).processId())
                    .assignTask(new AssignedTask(task.id(), AssignedTask.Type.ACTIVE));
            }
            return new TaskAssignment(placed.values());
        }
    }

    /** Kafka's sticky one, in the mode that its own leader never asks for. */
    public static final class Preserving extends PublicInterface.StickyInOneOrder {
        public Preserving() {
            super(true);
        }
    }

    /** Spread, and some processes are told when to come again: at once, at a time, or twice. */
    public static final class Deadlines extends Spread {
        @Override
        public TaskAssignment assign(final ApplicationState state) {
            final List<KafkaStreamsAssignment> placed = new ArrayList<>(super.assign(state).assignment());
            final int kind = kindOf(state, 4);
            for (int place = kind; place < placed.size(); place += 2) {
                final KafkaStreamsAssignment plain = placed.get(place);
                final KafkaStreamsAssignment told =
                    plain.withFollowupRebalance(Instant.ofEpochMilli(kind == 3 ? -5 : kind * 1_000_000_000_007L * place));
                if (kind == 2) {
                    placed.add(told.withFollowupRebalance(Instant.ofEpochMilli(0)));
                    break;
                }
                placed.set(place, told);
            }
            return new TaskAssignment(placed);
        }
    }

    /** Spread, and then something is wrong with it, in each way that Kafka has a name for, or in two ways. */
    public static final class Mistaken extends Spread {
        private static final ProcessId NOBODY = new ProcessId(UUID.fromString("00000000-0000-0000-0000-00000000dead"));

        @Override
        public TaskAssignment assign(final ApplicationState state) {
            final List<KafkaStreamsAssignment> placed = new ArrayList<>(super.assign(state).assignment());
            final KafkaStreamsAssignment first = placed.get(0);
            final KafkaStreamsAssignment last = placed.get(placed.size() - 1);
            final TaskId task = new TreeSet<>(state.allTasks().keySet()).first();
            final int kind = kindOf(state, 7);
            if (kind == 0) {
                last.assignTask(new AssignedTask(task, AssignedTask.Type.ACTIVE));
            } else if (kind == 1) {
                last.assignTask(new AssignedTask(
                    new TaskId(99, placed.size()),
                    placed.size() % 3 == 0 ? AssignedTask.Type.ACTIVE : AssignedTask.Type.STANDBY));
                last.assignTask(new AssignedTask(task, AssignedTask.Type.ACTIVE));
            } else if (kind == 2) {
                state.allTasks().keySet().forEach(each -> last.assignTask(new AssignedTask(each, AssignedTask.Type.STANDBY)));
            } else if (kind == 3) {
                placed.remove(0);
            } else if (kind == 4) {
                placed.add(KafkaStreamsAssignment.of(NOBODY, Set.of()));
            } else if (kind == 5) {
                placed.set(0, KafkaStreamsAssignment.of(NOBODY, Set.of()));
            } else {
                first.removeTask(new AssignedTask(task, AssignedTask.Type.STANDBY));
            }
            final TaskAssignment answer = new TaskAssignment(placed);
            if (kind == 4 && TaskAssignmentUtils.validateTaskAssignment(state, answer) != AssignmentError.UNKNOWN_PROCESS_ID) {
                throw new IllegalStateException("validated otherwise");
            }
            return answer;
        }
    }

    /** Fails, in each way that the leader has an answer to. */
    public static final class Raising extends Spread {
        private int kind;

        @Override
        public TaskAssignment assign(final ApplicationState state) {
            kind = kindOf(state, 8);
            final KafkaStreamsState process = state.kafkaStreamsStates(kind == 4).values().iterator().next();
            switch (kind) {
                case 0: throw new TaskAssignmentException("later");
                case 1: throw new MissingSourceTopicException("gone");
                case 2: throw new StreamsException("no");
                case 3: throw new IllegalArgumentException("odd");
                case 4: process.lagFor(new TaskId(99, 0)); break;
                case 5: process.statefulTasksToLagSums(); break;
                default: break;
            }
            return super.assign(state);
        }

        @Override
        public void onAssignmentComputed(
            final GroupAssignment assignment, final GroupSubscription subscription, final AssignmentError error) {
            final int members = subscription.groupSubscription().size();
            if (kind == 6) {
                throw new StreamsException("heard " + assignment.groupAssignment().size() + " of " + members + ": " + error);
            }
        }
    }

    private static Map<ProcessId, KafkaStreamsAssignment> nothing(final ApplicationState state) {
        final Map<ProcessId, KafkaStreamsAssignment> placed = new TreeMap<>();
        state.kafkaStreamsStates(false).keySet()
            .forEach(process -> placed.put(process, KafkaStreamsAssignment.of(process, Set.of())));
        return placed;
    }

    private static Map<ProcessId, KafkaStreamsAssignment> spread(final ApplicationState state) {
        final Map<ProcessId, KafkaStreamsAssignment> placed = nothing(state);
        final List<KafkaStreamsAssignment> inTurn = new ArrayList<>(placed.values());
        int turn = 0;
        for (final TaskId task : new TreeSet<>(state.allTasks().keySet())) {
            inTurn.get(turn++ % inTurn.size()).assignTask(new AssignedTask(task, AssignedTask.Type.ACTIVE));
        }
        return placed;
    }

    /** One of so many kinds of behaviour, always the same for a state. */
    private static int kindOf(final ApplicationState state, final int kinds) {
        final Map<ProcessId, KafkaStreamsState> processes = state.kafkaStreamsStates(false);
        int sum = 3 * state.allTasks().size() + processes.size();
        for (final KafkaStreamsState process : processes.values()) {
            sum += process.previousActiveTasks().size() + process.numProcessingThreads();
        }
        return sum % kinds;
    }
}
