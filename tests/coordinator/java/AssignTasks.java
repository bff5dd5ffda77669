import java.io.*;
import java.lang.reflect.*;
import java.nio.charset.StandardCharsets;
import java.util.*;

/**
 * Kafka's own assignor of streams groups, one group a line. Its interfaces were moved in 4.4, so
 * everything is looked up by name.
 *
 * In: STANDBYS | SUBTOPOLOGY=COUNT=STATEFUL,... | MEMBER;PROCESS;ACTIVE;STANDBY | next member
 * A list of tasks is SUBTOPOLOGY:P.P.P,... Out: MEMBER=ACTIVE/STANDBY|...
 */
public class AssignTasks {
    static final String OLD = "org.apache.kafka.coordinator.group.streams.assignor.";
    static final String NEW = "org.apache.kafka.coordinator.group.api.streams.assignor.";
    static boolean moved;

    public static void main(String[] args) throws Exception {
        try {
            Class.forName(NEW + "TaskAssignor");
            moved = true;
        } catch (ClassNotFoundException none) {
            moved = false;
        }
        var in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line; (line = in.readLine()) != null; ) System.out.println(answer(line));
    }

    static Map<String, Set<Integer>> tasks(String text) {
        Map<String, Set<Integer>> out = new HashMap<>();
        for (String row : text.split(",")) {
            if (row.isEmpty()) continue;
            String[] parts = row.split(":");
            Set<Integer> numbers = new HashSet<>();
            for (String number : parts[1].split("\\.")) numbers.add(Integer.parseInt(number));
            out.put(parts[0], numbers);
        }
        return out;
    }

    static Object member(String[] fields) throws Exception {
        Map<String, Set<Integer>> active = tasks(fields[2]), standby = tasks(fields[3]);
        Optional<String> none = Optional.empty();
        String name = OLD + (moved ? "MemberMetadataAndStateImpl" : "AssignmentMemberSpec");
        Constructor<?> made = Class.forName(name).getDeclaredConstructors()[0];
        return moved
            ? made.newInstance(none, none, fields[1], Map.of(), active, standby, Map.of(),
                Map.of(), Map.of())
            : made.newInstance(none, none, active, standby, Map.of(), fields[1], Map.of(),
                Map.of(), Map.of());
    }

    static Object call(Object on, String name) throws Exception {
        Method method = on.getClass().getMethod(name);
        method.setAccessible(true);
        return method.invoke(on);
    }

    static String answer(String line) throws Exception {
        String[] parts = line.split("\\|", -1);
        List<String> subtopologies = new ArrayList<>();
        Map<String, Integer> counts = new HashMap<>();
        Set<String> stateful = new HashSet<>();
        for (String row : parts[1].split(",")) {
            if (row.isEmpty()) continue;
            String[] fields = row.split("=");
            subtopologies.add(fields[0]);
            counts.put(fields[0], Integer.parseInt(fields[1]));
            if (fields[2].equals("1")) stateful.add(fields[0]);
        }
        Map<String, Object> members = new LinkedHashMap<>();
        for (int i = 2; i < parts.length; i++) {
            String[] fields = parts[i].split(";", -1);
            members.put(fields[0], member(fields));
        }
        String place = moved ? NEW : OLD;
        Map<String, String> configs = Map.of("num.standby.replicas", parts[0]);
        Object settings = moved ? settings(Integer.parseInt(parts[0])) : null;
        Class<?> specClass = Class.forName(place + "GroupSpec");
        Object spec = Proxy.newProxyInstance(
            AssignTasks.class.getClassLoader(), new Class<?>[] {specClass}, (self, method, a) ->
                switch (method.getName()) {
                    case "members" -> members;
                    case "memberIds" -> members.keySet();
                    case "memberMetadata", "memberAssignmentState" -> members.get(a[0]);
                    case "assignmentConfigs" -> configs;
                    case "configs" -> settings;
                    default -> throw new IllegalStateException(method.getName());
                });
        Class<?> describerClass = Class.forName(place + "TopologyDescriber");
        Object describer = Proxy.newProxyInstance(
            AssignTasks.class.getClassLoader(), new Class<?>[] {describerClass},
            (self, method, a) -> switch (method.getName()) {
                case "subtopologies", "subtopologyIds" -> subtopologies;
                case "maxNumInputPartitions", "numTasks" -> counts.get(a[0]);
                case "isStateful" -> stateful.contains(a[0]);
                default -> throw new IllegalStateException(method.getName());
            });
        Object assignor = Class.forName(OLD + "StickyTaskAssignor")
            .getDeclaredConstructor().newInstance();
        Object result = assignor.getClass().getMethod("assign", specClass, describerClass)
            .invoke(assignor, spec, describer);
        Map<?, ?> shares = (Map<?, ?>) call(result, "members");
        StringBuilder out = new StringBuilder();
        for (String id : members.keySet()) {
            Object share = shares.get(id);
            out.append(id).append('=').append(text(call(share, "activeTasks"))).append('/')
                .append(text(call(share, "standbyTasks"))).append('|');
        }
        return out.toString();
    }

    /** The settings of 4.4. */
    static Object settings(int standbys) throws Exception {
        Class<?> type = Class.forName(NEW + "AssignmentConfigs");
        return Proxy.newProxyInstance(
            AssignTasks.class.getClassLoader(), new Class<?>[] {type}, (self, method, a) ->
                method.getName().equals("numStandbyReplicas") ? (Object) standbys
                    : (Object) List.of());
    }

    static String text(Object tasks) {
        StringBuilder out = new StringBuilder();
        ((Map<?, ?>) tasks).forEach((name, numbers) -> {
            out.append(name).append(':');
            ((Set<?>) numbers).forEach(number -> out.append(number).append('.'));
            out.append(',');
        });
        return out.toString();
    }
}
