import com.sun.management.OperatingSystemMXBean;
import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.apache.kafka.coordinator.common.runtime.CoordinatorRecord;
import org.apache.kafka.coordinator.group.GroupCoordinatorRecordSerde;

/** Kafka's own record serde over a file of records: see benchmarks/peers/README.md. */
public final class Bench {
    private record Raw(byte[] key, byte[] value) {}

    private static CoordinatorRecord last;

    public static void main(String[] args) throws IOException {
        List<Raw> records = load(Path.of(args[0]));
        boolean keep = args[1].equals("kept");
        int passes = Integer.parseInt(args[2]);
        GroupCoordinatorRecordSerde serde = new GroupCoordinatorRecordSerde();
        OperatingSystemMXBean system =
            (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
        for (int i = 0; i < 2; i++) pass(serde, records, null); // until it is compiled
        double best = Double.MAX_VALUE;
        int read = 0;
        for (int i = 0; i < passes; i++) {
            System.gc();
            long start = system.getProcessCpuTime();
            CoordinatorRecord[] kept = keep ? new CoordinatorRecord[records.size()] : null;
            read = pass(serde, records, kept);
            best = Math.min(best, (system.getProcessCpuTime() - start) / 1e9);
            if (kept != null) last = kept[kept.length - 1];
        }
        System.out.printf("{\"seconds\": %s, \"read\": %d, \"peak_kib\": %d}%n", best, read, peak());
    }

    private static int pass(GroupCoordinatorRecordSerde serde, List<Raw> records, CoordinatorRecord[] kept) {
        int read = 0;
        for (Raw raw : records) {
            ByteBuffer value = raw.value == null ? null : ByteBuffer.wrap(raw.value);
            CoordinatorRecord one = serde.deserialize(ByteBuffer.wrap(raw.key), value);
            if (kept == null) last = one;
            else kept[read] = one;
            read++;
        }
        return read;
    }

    private static List<Raw> load(Path path) throws IOException {
        ByteBuffer data = ByteBuffer.wrap(Files.readAllBytes(path)).order(ByteOrder.LITTLE_ENDIAN);
        List<Raw> records = new ArrayList<>();
        while (data.hasRemaining()) {
            byte[] key = piece(data);
            records.add(new Raw(key, piece(data)));
        }
        return records;
    }

    private static byte[] piece(ByteBuffer data) {
        int size = data.getInt();
        if (size < 0) return null;
        byte[] bytes = new byte[size];
        data.get(bytes);
        return bytes;
    }

    private static long peak() throws IOException {
        for (String line : Files.readAllLines(Path.of("/proc/self/status"))) {
            if (line.startsWith("VmHWM:")) return Long.parseLong(line.replaceAll("[^0-9]", ""));
        }
        return 0;
    }
}
