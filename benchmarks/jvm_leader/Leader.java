package org.apache.kafka.streams.processor.internals;

import com.sun.management.OperatingSystemMXBean;
import java.io.BufferedInputStream;
import java.io.BufferedReader;
import java.io.DataInputStream;
import java.io.FileDescriptor;
import java.io.FileInputStream;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.lang.reflect.InvocationHandler;
import java.lang.reflect.Proxy;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.function.Supplier;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.DescribeTopicsResult;
import org.apache.kafka.clients.admin.ListOffsetsResult;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Assignment;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.GroupSubscription;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.clients.consumer.internals.ConsumerProtocol;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.TopicPartitionInfo;
import org.apache.kafka.common.utils.LogContext;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.StreamsConfig.InternalConfig;
import org.apache.kafka.streams.processor.TaskId;
import org.apache.kafka.streams.processor.assignment.ApplicationState;
import org.apache.kafka.streams.processor.assignment.AssignmentConfigs;
import org.apache.kafka.streams.processor.assignment.ProcessId;
import org.apache.kafka.streams.processor.assignment.assignors.StickyTaskAssignor;
import org.apache.kafka.streams.processor.internals.TopologyMetadata.Subtopology;
import org.apache.kafka.streams.processor.internals.assignment.AssignmentInfo;
import org.apache.kafka.streams.processor.internals.assignment.ClientState;
import org.apache.kafka.streams.processor.internals.assignment.FallbackPriorTaskAssignor;
import org.apache.kafka.streams.processor.internals.assignment.HighAvailabilityTaskAssignor;
import org.apache.kafka.streams.processor.internals.assignment.LegacyStickyTaskAssignor;
import org.apache.kafka.streams.processor.internals.assignment.RackAwareTaskAssignor;
import org.apache.kafka.streams.processor.internals.assignment.ReferenceContainer;
import org.apache.kafka.streams.processor.internals.assignment.SubscriptionInfo;
import org.apache.kafka.streams.state.HostInfo;

/**
 * Kafka Streams' own leader, timed: one group from a file, and a command a line on standard input.
 *
 * <p>The file is read, and every answer of the brokers is made, before anything is timed. "run" answers with the times of
 * one rebalance in nanoseconds; "digests FILE" writes what the last one sent; "codec OPERATION" times one codec. It lives in
 * this package because the leader's parts are visible only here; nothing of Kafka is changed but the brokers it would ask.
 */
public final class Leader {
    private static final ThreadMXBean THREADS = ManagementFactory.getThreadMXBean();
    private static final OperatingSystemMXBean SYSTEM = (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();

    private static long placingCpuNs;
    private static long placingWallNs;

    private final TimedGroup group;
    private final Map<String, byte[]> sent = new LinkedHashMap<>();

    private Leader(final TimedGroup group) {
        this.group = group;
    }

    public static void main(final String[] arguments) throws Exception {
        final PrintStream answers = new PrintStream(new FileOutputStream(FileDescriptor.out), false, StandardCharsets.US_ASCII);
        System.setOut(System.err);
        final Leader leader = new Leader(new TimedGroup(arguments[0]));
        final BufferedReader commands = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String command = commands.readLine(); command != null; command = commands.readLine()) {
            answers.println(leader.answer(command.split(" ", 2)));
            answers.flush();
        }
    }

    private String answer(final String[] command) throws IOException, NoSuchAlgorithmException {
        return switch (command[0]) {
            case "ready" -> "ready";
            case "run" -> run();
            case "digests" -> digests(Path.of(command[1]));
            case "codec" -> codec(command[1]);
            default -> throw new IllegalArgumentException("no such command: " + command[0]);
        };
    }

    /** From all subscriptions' bytes to all assignments'; what the leader thread, the process and the clock say. */
    private String run() {
        final StreamsPartitionAssignor assignor = group.assignor();
        sent.clear();
        final long process = SYSTEM.getProcessCpuTime();
        final long wall = System.nanoTime();
        final long cpu = THREADS.getCurrentThreadCpuTime();
        final Map<String, Subscription> subscriptions = new HashMap<>();
        group.received.forEach((member, raw) ->
            subscriptions.put(member, ConsumerProtocol.deserializeSubscription(ByteBuffer.wrap(raw))));
        final Map<String, Assignment> assignments =
            assignor.assign(group.cluster, new GroupSubscription(subscriptions)).groupAssignment();
        assignments.forEach((member, assignment) -> sent.put(member, ConsumerProtocol.serializeAssignment(assignment).array()));
        final long cpuNs = THREADS.getCurrentThreadCpuTime() - cpu;
        final long wallNs = System.nanoTime() - wall;
        final long processNs = SYSTEM.getProcessCpuTime() - process;
        return cpuNs + " " + wallNs + " " + processNs + " " + placingCpuNs + " " + placingWallNs;
    }

    private String digests(final Path file) throws IOException, NoSuchAlgorithmException {
        final StringBuilder lines = new StringBuilder();
        for (final Map.Entry<String, byte[]> member : sent.entrySet()) {
            final byte[] digest = MessageDigest.getInstance("SHA-256").digest(member.getValue());
            lines.append(member.getKey()).append(' ').append(member.getValue().length).append(' ')
                .append(HexFormat.of().formatHex(digest)).append('\n');
        }
        Files.writeString(file, lines);
        return "written";
    }

    /** The bytes of all members, and the nanoseconds of CPU and clock to decode or encode them once. */
    private String codec(final String operation) {
        return switch (operation) {
            case "decode-subscriptions" -> {
                final List<byte[]> raw = List.copyOf(group.received.values());
                yield timed(raw, () -> decodedSubscriptions(raw).size());
            }
            case "encode-subscriptions" -> {
                final List<byte[]> raw = List.copyOf(group.received.values());
                final List<DecodedSubscription> decoded = decodedSubscriptions(raw);
                yield timed(raw, () -> encodedSubscriptions(decoded));
            }
            case "decode-assignments" -> {
                final List<byte[]> raw = List.copyOf(sent.values());
                yield timed(raw, () -> decodedAssignments(raw).size());
            }
            case "encode-assignments" -> {
                final List<byte[]> raw = List.copyOf(sent.values());
                final List<DecodedAssignment> decoded = decodedAssignments(raw);
                yield timed(raw, () -> encodedAssignments(decoded));
            }
            default -> throw new IllegalArgumentException("no such codec: " + operation);
        };
    }

    private static String timed(final List<byte[]> raw, final Supplier<Integer> work) {
        final long wall = System.nanoTime();
        final long cpu = THREADS.getCurrentThreadCpuTime();
        final int done = work.get();
        final long cpuNs = THREADS.getCurrentThreadCpuTime() - cpu;
        final long wallNs = System.nanoTime() - wall;
        return raw.stream().mapToLong(each -> each.length).sum() + " " + cpuNs + " " + wallNs + " " + done;
    }

    private record DecodedSubscription(Subscription subscription, SubscriptionInfo info, Map<TaskId, Long> sums) { }

    private static List<DecodedSubscription> decodedSubscriptions(final List<byte[]> raw) {
        final List<DecodedSubscription> decoded = new ArrayList<>(raw.size());
        for (final byte[] each : raw) {
            final Subscription subscription = ConsumerProtocol.deserializeSubscription(ByteBuffer.wrap(each));
            final SubscriptionInfo info = SubscriptionInfo.decode(subscription.userData());
            decoded.add(new DecodedSubscription(subscription, info, info.taskOffsetSums()));
        }
        return decoded;
    }

    private static int encodedSubscriptions(final List<DecodedSubscription> decoded) {
        int bytes = 0;
        for (final DecodedSubscription each : decoded) {
            final SubscriptionInfo info = each.info();
            final ByteBuffer userData = new SubscriptionInfo(
                info.version(), info.latestSupportedVersion(), info.processId(), info.userEndPoint(), each.sums(), (byte) 1,
                info.errorCode(), info.clientTags()).encode();
            final Subscription subscription = each.subscription();
            bytes += ConsumerProtocol.serializeSubscription(new Subscription(
                subscription.topics(), userData, subscription.ownedPartitions(), subscription.generationId().orElse(-1),
                subscription.rackId())).remaining();
        }
        return bytes;
    }

    private record DecodedAssignment(Assignment assignment, AssignmentInfo info) { }

    private static List<DecodedAssignment> decodedAssignments(final List<byte[]> raw) {
        final List<DecodedAssignment> decoded = new ArrayList<>(raw.size());
        for (final byte[] each : raw) {
            final Assignment assignment = ConsumerProtocol.deserializeAssignment(ByteBuffer.wrap(each));
            decoded.add(new DecodedAssignment(assignment, AssignmentInfo.decode(assignment.userData())));
        }
        return decoded;
    }

    private static int encodedAssignments(final List<DecodedAssignment> decoded) {
        int bytes = 0;
        for (final DecodedAssignment each : decoded) {
            bytes += ConsumerProtocol.serializeAssignment(
                new Assignment(each.assignment().partitions(), each.info().encode())).remaining();
        }
        return bytes;
    }

    private static <T> T placing(final Supplier<T> place) {
        final long wall = System.nanoTime();
        final long cpu = THREADS.getCurrentThreadCpuTime();
        final T placed = place.get();
        placingCpuNs = THREADS.getCurrentThreadCpuTime() - cpu;
        placingWallNs = System.nanoTime() - wall;
        return placed;
    }

    /** Kafka's class, with a clock around its one method; so are those that follow. */
    public static final class HighAvailability extends HighAvailabilityTaskAssignor {
        @Override
        public boolean assign(
            final Map<ProcessId, ClientState> clients, final Set<TaskId> tasks, final Set<TaskId> stateful,
            final RackAwareTaskAssignor racks, final AssignmentConfigs configs) {
            return placing(() -> super.assign(clients, tasks, stateful, racks, configs));
        }
    }

    public static final class LegacySticky extends LegacyStickyTaskAssignor {
        @Override
        public boolean assign(
            final Map<ProcessId, ClientState> clients, final Set<TaskId> tasks, final Set<TaskId> stateful,
            final RackAwareTaskAssignor racks, final AssignmentConfigs configs) {
            return placing(() -> super.assign(clients, tasks, stateful, racks, configs));
        }
    }

    public static final class FallbackPrior extends FallbackPriorTaskAssignor {
        @Override
        public boolean assign(
            final Map<ProcessId, ClientState> clients, final Set<TaskId> tasks, final Set<TaskId> stateful,
            final RackAwareTaskAssignor racks, final AssignmentConfigs configs) {
            return placing(() -> super.assign(clients, tasks, stateful, racks, configs));
        }
    }

    public static final class Sticky extends StickyTaskAssignor {
        @Override
        public TaskAssignment assign(final ApplicationState state) {
            return placing(() -> super.assign(state));
        }
    }
}

/** What group_file.py wrote: a source topic and a changelog of as many partitions, and the members' bytes. */
final class TimedGroup {
    final Map<String, byte[]> received = new LinkedHashMap<>();
    final Cluster cluster;
    private final Map<String, String> configs = new HashMap<>();
    private final Map<String, List<TopicPartitionInfo>> replicas = new HashMap<>();
    private final OneStore topology;
    private final Admin admin;

    TimedGroup(final String file) throws IOException {
        try (DataInputStream input = new DataInputStream(new BufferedInputStream(new FileInputStream(file)))) {
            for (int left = input.readInt(); left > 0; left--) {
                configs.put(input.readUTF(), input.readUTF());
            }
            final Map<Integer, Node> nodes = new LinkedHashMap<>();
            for (int left = input.readInt(); left > 0; left--) {
                final int id = input.readInt();
                final String rack = input.readUTF();
                nodes.put(id, new Node(id, "broker-" + id, 9092, rack.isEmpty() ? null : rack));
            }
            final String source = input.readUTF();
            final String changelog = input.readUTF();
            topology = new OneStore(source, changelog);
            final List<PartitionInfo> partitions = new ArrayList<>();
            final List<TopicPartitionInfo> infos = new ArrayList<>();
            final Map<TopicPartition, KafkaFuture<ListOffsetsResult.ListOffsetsResultInfo>> ends = new HashMap<>();
            final int count = input.readInt();
            for (int number = 0; number < count; number++) {
                final List<Node> holders = new ArrayList<>();
                for (int left = input.readInt(); left > 0; left--) {
                    holders.add(nodes.get(input.readInt()));
                }
                final Node[] array = holders.toArray(new Node[0]);
                partitions.add(new PartitionInfo(source, number, null, array, array));
                infos.add(new TopicPartitionInfo(number, null, holders, holders));
                ends.put(new TopicPartition(changelog, number), KafkaFuture.completedFuture(
                    new ListOffsetsResult.ListOffsetsResultInfo(input.readLong(), -1L, Optional.empty())));
            }
            cluster = new Cluster("cluster", nodes.values(), partitions, Set.of(), Set.of());
            replicas.put(source, infos);
            replicas.put(changelog, infos);
            admin = admin(changelog, infos, ends);
            for (int left = input.readInt(); left > 0; left--) {
                final String member = input.readUTF();
                received.put(member, input.readNBytes(input.readInt()));
            }
        }
    }

    StreamsPartitionAssignor assignor() {
        final Map<String, Object> given = new HashMap<>(configs);
        final StreamsConfig streamsConfig = new ClientUtils.QuietStreamsConfig(given);
        final TopologyMetadata metadata = new TopologyMetadata(topology, streamsConfig);
        final ReferenceContainer references = new ReferenceContainer();
        references.time = asked(Time.class, (proxy, method, arguments) -> {
            if (method.getName().equals("milliseconds")) {
                return 0L;
            }
            throw new UnsupportedOperationException(method.toString());
        });
        references.mainConsumer = consumer();
        references.adminClient = admin;
        references.clientTags = Map.of();
        references.taskManager = new TaskManager(
            references.time, null, null, "", null, null, null, metadata, references.adminClient, null, null, null);
        references.streamsMetadataState = new StreamsMetadataState(metadata, HostInfo.unavailable(), new LogContext());
        given.put(InternalConfig.REFERENCE_CONTAINER_PARTITION_ASSIGNOR, references);
        final StreamsPartitionAssignor assignor = new StreamsPartitionAssignor();
        assignor.configure(given);
        assignor.setInternalTopicManager(new InternalTopicManager(references.time, references.adminClient, streamsConfig) {
            @Override
            public Map<String, List<TopicPartitionInfo>> getTopicPartitionInfo(final Set<String> topics) {
                final Map<String, List<TopicPartitionInfo>> answers = new HashMap<>();
                topics.forEach(topic -> answers.put(topic, replicas.get(topic)));
                return answers;
            }
        });
        return assignor;
    }

    private static Admin admin(
        final String changelog, final List<TopicPartitionInfo> partitions,
        final Map<TopicPartition, KafkaFuture<ListOffsetsResult.ListOffsetsResultInfo>> ends) {
        final DescribeTopicsResult described = new Described(
            Map.of(changelog, KafkaFuture.completedFuture(new TopicDescription(changelog, true, partitions))));
        final ListOffsetsResult listed = new ListOffsetsResult(ends);
        return asked(Admin.class, (proxy, method, arguments) -> switch (method.getName()) {
            case "describeTopics" -> described;
            case "listOffsets" -> listed;
            default -> throw new UnsupportedOperationException(method.toString());
        });
    }

    @SuppressWarnings("unchecked")
    private static Consumer<byte[], byte[]> consumer() {
        return asked(Consumer.class, (proxy, method, arguments) -> {
            if (!method.getName().equals("committed")) {
                throw new UnsupportedOperationException(method.toString());
            }
            return Map.of();
        });
    }

    private static <T> T asked(final Class<T> type, final InvocationHandler answer) {
        return type.cast(Proxy.newProxyInstance(Leader.class.getClassLoader(), new Class<?>[] {type}, answer));
    }

    private static final class Described extends DescribeTopicsResult {
        Described(final Map<String, KafkaFuture<TopicDescription>> byName) {
            super(null, byName);
        }
    }

    /** One subtopology that reads the source topic and has one store. */
    private static final class OneStore extends InternalTopologyBuilder {
        private final String source;
        private final String changelog;

        OneStore(final String source, final String changelog) {
            this.source = source;
            this.changelog = changelog;
        }

        @Override
        public synchronized Map<Subtopology, TopicsInfo> subtopologyToTopicsInfo() {
            return Map.of(new Subtopology(0, null), new TopicsInfo(
                Set.of(), Set.of(source), Map.of(),
                Map.of(changelog, new UnwindowedUnversionedChangelogTopicConfig(changelog, Map.of()))));
        }

        @Override
        public Set<String> stateStoreNamesForSubtopology(final int subtopology) {
            return Set.of("store");
        }

        @Override
        public synchronized Collection<Set<String>> copartitionGroups() {
            return List.of(Set.of(source));
        }
    }
}
