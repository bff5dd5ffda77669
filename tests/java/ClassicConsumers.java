import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** Consumers until standard input ends: {@code BOOTSTRAP TOPIC GROUP[,KEY=VALUE]...}, one for each GROUP. */
public final class ClassicConsumers {
    private static volatile boolean ended;

    public static void main(String[] args) throws Exception {
        List<Thread> running = new ArrayList<>();
        for (String spec : List.of(args).subList(2, args.length)) {
            Thread thread = new Thread(() -> consume(args[0], args[1], spec.split(",")));
            thread.start();
            running.add(thread);
        }
        while (System.in.read() >= 0) {
            continue;
        }
        ended = true;
        for (Thread thread : running) {
            thread.join();
        }
    }

    private static void consume(String bootstrap, String topic, String[] spec) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("group.id", spec[0]);
        settings.put("key.deserializer", ByteArrayDeserializer.class);
        settings.put("value.deserializer", ByteArrayDeserializer.class);
        settings.put("heartbeat.interval.ms", "500");
        for (int i = 1; i < spec.length; i++) {
            settings.put(spec[i].split("=")[0], spec[i].split("=")[1]);
        }
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(settings)) {
            consumer.subscribe(List.of(topic));
            while (!ended) {
                consumer.poll(Duration.ofMillis(100));
            }
        }
    }
}
