import java.io.*;
import java.lang.reflect.*;
import java.nio.charset.StandardCharsets;
import java.util.*;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.coordinator.group.api.assignor.*;

/**
 * Kafka's own assignors, one group a line.
 *
 * In: ASSIGNOR TYPE | TOPIC=COUNT,... | MEMBER;INSTANCE;TOPIC,...;TOPIC:P.P.P,... | next member
 * COUNT/P.P.P lists the partitions of which a share group may assign; all without it.
 * Out: MEMBER=TOPIC:P.P.P,...|... in the order of the visits and of the tables.
 */
public class Assign {
    public static void main(String[] args) throws Exception {
        var in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line; (line = in.readLine()) != null; ) System.out.println(answer(line));
    }

    static Map<Uuid, Set<Integer>> assignment(String text) {
        Map<Uuid, Set<Integer>> out = new HashMap<>();
        for (String row : text.split(",")) {
            if (row.isEmpty()) continue;
            String[] parts = row.split(":", -1);
            List<Integer> numbers = new ArrayList<>();
            for (String number : parts[1].split("\\."))
                if (!number.isEmpty()) numbers.add(Integer.parseInt(number));
            out.put(Uuid.fromString(parts[0]), new HashSet<>(numbers));
        }
        return Collections.unmodifiableMap(out);
    }

    record Member(Optional<String> instanceId, Set<Uuid> topics, Map<Uuid, Set<Integer>> target)
        implements MemberSubscription, MemberAssignment {
        public Optional<String> rackId() { return Optional.empty(); }
        public Set<Uuid> subscribedTopicIds() { return topics; }
        public Map<Uuid, Set<Integer>> partitions() { return target; }
    }

    static String answer(String line) throws Exception {
        String[] parts = line.split("\\|", -1);
        String[] head = parts[0].split(" ");
        Map<Uuid, Integer> counts = new HashMap<>();
        Map<Uuid, Set<Integer>> assignable = new HashMap<>();
        for (String topic : parts[1].split(",")) {
            if (topic.isEmpty()) continue;
            String[] pair = topic.split("=");
            Uuid id = Uuid.fromString(pair[0]);
            String[] sizes = pair[1].split("/", -1);
            int count = Integer.parseInt(sizes[0]);
            counts.put(id, count);
            Set<Integer> allowed = new TreeSet<>();
            if (sizes.length == 1) for (int n = 0; n < count; n++) allowed.add(n);
            else for (String n : sizes[1].split("\\."))
                if (!n.isEmpty()) allowed.add(Integer.parseInt(n));
            assignable.put(id, allowed);
        }
        Map<String, Member> members = new LinkedHashMap<>();
        Map<Uuid, Map<Integer, String>> owners = new HashMap<>();
        for (int i = 2; i < parts.length; i++) {
            String[] fields = parts[i].split(";", -1);
            Set<Uuid> topics = new LinkedHashSet<>();
            for (String topic : fields[2].split(","))
                if (!topic.isEmpty()) topics.add(Uuid.fromString(topic));
            var target = assignment(fields[3]);
            String id = fields[0];
            target.forEach((topic, numbers) -> numbers.forEach(number ->
                owners.computeIfAbsent(topic, __ -> new HashMap<>()).put(number, id)));
            Optional<String> instance =
                fields[1].isEmpty() ? Optional.empty() : Optional.of(fields[1]);
            members.put(id, new Member(instance, topics, target));
        }
        GroupSpec spec = (GroupSpec) Proxy.newProxyInstance(
            Assign.class.getClassLoader(), new Class<?>[] {GroupSpec.class}, (self, method, a) ->
                switch (method.getName()) {
                    case "memberIds" -> Collections.unmodifiableCollection(members.keySet());
                    case "subscriptionType" -> SubscriptionType.valueOf(head[1]);
                    case "isPartitionAssigned" ->
                        owners.getOrDefault(a[0], Map.of()).containsKey(a[1]);
                    case "isPartitionAssignable" ->
                        assignable.getOrDefault(a[0], Set.of()).contains(a[1]);
                    case "memberSubscription", "memberAssignment" -> members.get(a[0]);
                    default -> throw new IllegalStateException(method.getName());
                });
        SubscribedTopicDescriber topics = (SubscribedTopicDescriber) Proxy.newProxyInstance(
            Assign.class.getClassLoader(), new Class<?>[] {SubscribedTopicDescriber.class},
            (self, method, a) -> switch (method.getName()) {
                case "numPartitions" -> counts.getOrDefault((Uuid) a[0], -1);
                case "racksForPartition" -> Set.of();
                case "assignablePartitions" -> assignable.getOrDefault(a[0], Set.of());
                default -> throw new IllegalStateException(method.getName());
            });
        String name = switch (head[0]) {
            case "range" -> "RangeAssignor";
            case "simple" -> "SimpleAssignor";
            default -> "UniformAssignor";
        };
        var assignor = (PartitionAssignor) Class
            .forName("org.apache.kafka.coordinator.group.assignor." + name)
            .getDeclaredConstructor().newInstance();
        GroupAssignment result;
        try {
            result = assignor.assign(spec, topics);
        } catch (RuntimeException failed) {
            return "failed";
        }
        StringBuilder out = new StringBuilder();
        for (String id : members.keySet()) {
            MemberAssignment share = result.members().get(id);
            out.append(id).append('=');
            if (share != null) share.partitions().forEach((topic, numbers) -> {
                out.append(topic).append(':');
                numbers.forEach(number -> out.append(number).append('.'));
                out.append(',');
            });
            out.append('|');
        }
        return out.toString();
    }
}
