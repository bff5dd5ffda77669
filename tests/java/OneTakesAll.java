import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.coordinator.group.api.assignor.ConsumerGroupPartitionAssignor;
import org.apache.kafka.coordinator.group.api.assignor.GroupAssignment;
import org.apache.kafka.coordinator.group.api.assignor.GroupSpec;
import org.apache.kafka.coordinator.group.api.assignor.MemberAssignment;
import org.apache.kafka.coordinator.group.api.assignor.SubscribedTopicDescriber;

/** An assignor that gives every partition to the first member that subscribes to its topic. */
public class OneTakesAll implements ConsumerGroupPartitionAssignor {
    @Override
    public String name() {
        return "one-takes-all";
    }

    @Override
    public GroupAssignment assign(GroupSpec group, SubscribedTopicDescriber topics) {
        Map<String, MemberAssignment> result = new HashMap<>();
        Set<Uuid> taken = new HashSet<>();
        for (String member : new TreeSet<>(group.memberIds())) {
            Map<Uuid, Set<Integer>> partitions = new HashMap<>();
            for (Uuid topic : group.memberSubscription(member).subscribedTopicIds()) {
                if (taken.add(topic)) {
                    Set<Integer> numbers = new HashSet<>();
                    for (int number = 0; number < topics.numPartitions(topic); number++) {
                        numbers.add(number);
                    }
                    partitions.put(topic, numbers);
                }
            }
            result.put(member, () -> Collections.unmodifiableMap(partitions));
        }
        return new GroupAssignment(result);
    }
}
