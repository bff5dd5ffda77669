import java.time.Duration;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;

/** One client for some time: {@code share|classic|streams BOOTSTRAP GROUP MILLISECONDS FOLDER}. */
public final class Clients {
    public static void main(String[] args) throws Exception {
        Duration time = Duration.ofMillis(Long.parseLong(args[3]));
        if (args[0].equals("share")) {
            share(args[1], args[2], time);
        } else {
            streams(args[0], args[1], args[2], time, args[4]);
        }
    }

    private static void share(String bootstrap, String group, Duration time) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("group.id", group);
        settings.put("key.deserializer", ByteArrayDeserializer.class);
        settings.put("value.deserializer", ByteArrayDeserializer.class);
        long end = System.nanoTime() + time.toNanos();
        try (KafkaShareConsumer<byte[], byte[]> consumer = new KafkaShareConsumer<>(settings)) {
            consumer.subscribe(List.of("words"));
            while (System.nanoTime() < end) {
                consumer.poll(Duration.ofMillis(200));
            }
        }
    }

    /** Counts words, so that the group has a subtopology with a repartition and a changelog topic. */
    private static void streams(
            String protocol, String bootstrap, String group, Duration time, String folder) throws Exception {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("application.id", group);
        settings.put("group.protocol", protocol);
        settings.put("state.dir", folder);
        settings.put("commit.interval.ms", "500");
        settings.put("default.key.serde", Serdes.StringSerde.class);
        settings.put("default.value.serde", Serdes.StringSerde.class);
        StreamsBuilder topology = new StreamsBuilder();
        topology.<String, String>stream("words")
                .groupBy((key, word) -> word)
                .count()
                .toStream()
                .mapValues(String::valueOf)
                .to("counts");
        try (KafkaStreams streams = new KafkaStreams(topology.build(), settings)) {
            streams.start();
            Thread.sleep(time.toMillis());
        }
    }
}
