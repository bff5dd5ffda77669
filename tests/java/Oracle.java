import com.fasterxml.jackson.core.JsonGenerator;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedInputStream;
import java.io.BufferedOutputStream;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.EOFException;
import java.io.IOException;
import java.io.PrintStream;
import java.io.StringWriter;
import java.io.PrintWriter;
import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/**
 * Kafka's own record classes behind a pipe, for tests/kafka_oracle.py.
 *
 * Run as `java -cp JACKSON Oracle.java`. Each Kafka release gets a class loader of its own, so one
 * process answers for all of them; that is why Kafka's classes are reached by reflection only.
 *
 * A request and an answer are an int32 length and so many bytes. A request: one byte that says
 * what is asked, the release's number, and what the methods below read. An answer: byte 0 and the
 * result, or byte 1 and a stack trace. Integers are big-endian, a text is a short and UTF-8,
 * bytes are an int32 length (-1: null) and so many bytes. It ends when its input does.
 */
public final class Oracle {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final Map<String, Release> RELEASES = new HashMap<>();

    public static void main(String[] args) throws IOException {
        DataInputStream in = new DataInputStream(new BufferedInputStream(System.in, 1 << 16));
        DataOutputStream out = new DataOutputStream(new BufferedOutputStream(System.out, 1 << 16));
        System.setOut(new PrintStream(System.err)); // whatever Kafka may print must not get between
        while (true) {
            byte[] request;
            try {
                request = new byte[in.readInt()];
                in.readFully(request);
            } catch (EOFException end) {
                return;
            }
            ByteArrayOutputStream answer = new ByteArrayOutputStream(1 << 16);
            answer.write(0);
            try {
                answer(new DataInputStream(new ByteArrayInputStream(request)), answer);
            } catch (Throwable failure) {
                StringWriter trace = new StringWriter();
                failure.printStackTrace(new PrintWriter(trace));
                answer.reset();
                answer.write(1);
                answer.write(trace.toString().getBytes("UTF-8"));
            }
            out.writeInt(answer.size());
            answer.writeTo(out);
            out.flush();
        }
    }

    private static void answer(DataInputStream request, ByteArrayOutputStream answer) throws Throwable {
        byte what = request.readByte();
        String name = request.readUTF();
        switch (what) {
            case 'L' -> RELEASES.put(name, new Release(request));
            case 'D' -> RELEASES.get(name).decode(request, answer);
            case 'E' -> RELEASES.get(name).encode(request, answer);
            case 'd' -> RELEASES.get(name).decodeEmbedded(request, answer);
            case 'e' -> RELEASES.get(name).encodeEmbedded(request, answer);
            default -> throw new IllegalArgumentException("unknown request " + what);
        }
    }

    private static byte[] readBytes(DataInputStream in) throws IOException {
        int length = in.readInt();
        if (length < 0) return null;
        byte[] bytes = new byte[length];
        in.readFully(bytes);
        return bytes;
    }

    private static void writeBytes(DataOutputStream out, byte[] bytes) throws IOException {
        out.writeInt(bytes == null ? -1 : bytes.length);
        if (bytes != null) out.write(bytes);
    }

    private static ByteBuffer wrap(byte[] bytes) {
        return bytes == null ? null : ByteBuffer.wrap(bytes);
    }

    private static String said(Throwable failure) {
        while (failure instanceof InvocationTargetException && failure.getCause() != null) failure = failure.getCause();
        return failure.getClass().getSimpleName() + ": " + failure.getMessage();
    }

    /** One release of Kafka. */
    private static final class Release {
        private static final String CLIENTS = "org.apache.kafka.common.message.";

        private final ClassLoader loader;
        private final Object serde;
        private final Method deserialize;
        private final Method serializeKey;
        private final Method serializeValue;
        private final Method newKey;
        private final Method newValue;
        private final Method prefixed;
        private final MethodHandle message;
        private final MethodHandle version;
        private final MethodHandle lowest;
        private final MethodHandle highest;
        private final Class<?> apiMessage;
        private final Class<?> uuid;
        private final Map<Class<?>, MethodHandle> writers = new HashMap<>();
        private final Map<Class<?>, MethodHandle> readers = new HashMap<>();
        private Method recordKey;
        private Method recordValue;

        Release(DataInputStream request) throws Exception {
            URL[] classPath = new URL[request.readInt()];
            for (int i = 0; i < classPath.length; i++) classPath[i] = Path.of(request.readUTF()).toUri().toURL();
            loader = new URLClassLoader(classPath, Oracle.class.getClassLoader());
            MethodHandles.Lookup lookup = MethodHandles.publicLookup();
            Class<?> versioned = loader.loadClass("org.apache.kafka.server.common.ApiMessageAndVersion");
            apiMessage = loader.loadClass("org.apache.kafka.common.protocol.ApiMessage");
            uuid = loader.loadClass("org.apache.kafka.common.Uuid");
            message = lookup.findVirtual(versioned, "message", MethodType.methodType(apiMessage))
                .asType(MethodType.methodType(Object.class, Object.class));
            version = lookup.findVirtual(versioned, "version", MethodType.methodType(short.class))
                .asType(MethodType.methodType(short.class, Object.class));
            lowest = lookup.findVirtual(apiMessage, "lowestSupportedVersion", MethodType.methodType(short.class))
                .asType(MethodType.methodType(short.class, Object.class));
            highest = lookup.findVirtual(apiMessage, "highestSupportedVersion", MethodType.methodType(short.class))
                .asType(MethodType.methodType(short.class, Object.class));
            Class<?> type = serdeClass();
            serde = type.getDeclaredConstructor().newInstance();
            deserialize = type.getMethod("deserialize", ByteBuffer.class, ByteBuffer.class);
            serializeKey = type.getMethod("serializeKey", Object.class);
            serializeValue = type.getMethod("serializeValue", Object.class);
            newKey = type.getDeclaredMethod("apiMessageKeyFor", short.class);
            newValue = type.getDeclaredMethod("apiMessageValueFor", short.class);
            newKey.setAccessible(true);
            newValue.setAccessible(true);
            prefixed = loader.loadClass("org.apache.kafka.common.protocol.MessageUtil")
                .getMethod("toVersionPrefixedBytes", short.class, loader.loadClass("org.apache.kafka.common.protocol.Message"));
        }

        private Class<?> serdeClass() throws ClassNotFoundException {
            try {
                return loader.loadClass("org.apache.kafka.coordinator.group.GroupCoordinatorRecordSerde");
            } catch (ClassNotFoundException before40) {
                return loader.loadClass("org.apache.kafka.coordinator.group.RecordSerde");
            }
        }

        /** Count, then pairs of key and value bytes; answers a JSON array. */
        void decode(DataInputStream request, ByteArrayOutputStream answer) throws Throwable {
            int count = request.readInt();
            try (JsonGenerator json = JSON.getFactory().createGenerator(answer)) {
                json.writeStartArray();
                for (int i = 0; i < count; i++) {
                    byte[] key = readBytes(request);
                    byte[] value = readBytes(request);
                    JSON.writeTree(json, decode(key, value));
                }
                json.writeEndArray();
            }
        }

        private ObjectNode decode(byte[] key, byte[] value) {
            ObjectNode node = JsonNodeFactory.instance.objectNode();
            try {
                Object record = deserialize.invoke(serde, wrap(key), wrap(value));
                if (recordKey == null) {
                    recordKey = record.getClass().getMethod("key");
                    recordValue = record.getClass().getMethod("value");
                }
                Object keyMessage = recordKey.invoke(record);
                if (!apiMessage.isInstance(keyMessage)) keyMessage = (Object) message.invokeExact(keyMessage);
                node.put("type", ByteBuffer.wrap(key).getShort());
                node.set("key", write(keyMessage, (short) lowest.invokeExact(keyMessage)));
                Object versioned = recordValue.invoke(record);
                if (versioned == null) {
                    node.putNull("version");
                    node.putNull("value");
                } else {
                    short number = (short) version.invokeExact(versioned);
                    node.put("version", number);
                    node.set("value", write((Object) message.invokeExact(versioned), number));
                }
                node.put("canonical", writesAgain(record, key, versioned == null ? null : value));
            } catch (Throwable failure) {
                node.removeAll();
                node.put("error", said(failure));
            }
            return node;
        }

        private boolean writesAgain(Object record, byte[] key, byte[] value) throws IllegalAccessException {
            try {
                return Arrays.equals(key, (byte[]) serializeKey.invoke(serde, record))
                    && Arrays.equals(value, (byte[]) serializeValue.invoke(serde, record));
            } catch (InvocationTargetException unwritable) { // a tag 2^31 - 1 is read and never written
                return false;
            }
        }

        /** JSON array of {key_type, version, key, value}; answers for each byte 0, key, value or byte 1, text. */
        void encode(DataInputStream request, ByteArrayOutputStream answer) throws Throwable {
            DataOutputStream out = new DataOutputStream(answer);
            for (JsonNode record : JSON.readTree(request.readAllBytes())) {
                byte[] key;
                byte[] value = null;
                try {
                    short type = (short) record.get("key_type").intValue();
                    Object keyMessage = newKey.invoke(serde, type);
                    short keyVersion = (short) Math.min(Math.max(type, (short) lowest.invokeExact(keyMessage)), (short) highest.invokeExact(keyMessage));
                    key = encode(keyMessage.getClass(), record.get("key"), keyVersion);
                    ByteBuffer.wrap(key).putShort(type);
                    JsonNode json = record.get("value");
                    if (json != null && !json.isNull())
                        value = encode(newValue.invoke(serde, type).getClass(), json, (short) record.get("version").intValue());
                } catch (Throwable failure) {
                    out.writeByte(1);
                    writeBytes(out, said(failure).getBytes("UTF-8"));
                    continue;
                }
                out.writeByte(0);
                writeBytes(out, key);
                writeBytes(out, value);
            }
        }

        /** Message name, count, bytes; answers a JSON array. Versions above the highest are read as the highest, as consumers do. */
        void decodeEmbedded(DataInputStream request, ByteArrayOutputStream answer) throws Throwable {
            Class<?> type = loader.loadClass(CLIENTS + request.readUTF());
            Class<?> protocol = loader.loadClass("org.apache.kafka.clients.consumer.internals.ConsumerProtocol");
            Class<?> readable = loader.loadClass("org.apache.kafka.common.protocol.Readable");
            Class<?> accessor = loader.loadClass("org.apache.kafka.common.protocol.ByteBufferAccessor");
            Method deserializeVersion = protocol.getMethod("deserializeVersion", ByteBuffer.class);
            Method asConsumers = protocol.getMethod(
                "deserialize" + type.getSimpleName().substring("ConsumerProtocol".length()), ByteBuffer.class);
            short top = type.getField("HIGHEST_SUPPORTED_VERSION").getShort(null);
            int count = request.readInt();
            ArrayNode nodes = JsonNodeFactory.instance.arrayNode();
            for (int i = 0; i < count; i++) {
                byte[] bytes = readBytes(request);
                ObjectNode node = nodes.addObject();
                try {
                    asConsumers.invoke(null, wrap(bytes)); // raises what a consumer would raise
                    ByteBuffer buffer = wrap(bytes);
                    short number = (short) deserializeVersion.invoke(null, buffer);
                    short as = (short) Math.min(number, top);
                    Object value = type.getConstructor(readable, short.class)
                        .newInstance(accessor.getConstructor(ByteBuffer.class).newInstance(buffer), as);
                    node.put("version", number);
                    node.set("value", write(value, as));
                    node.put("rest", buffer.remaining());
                    node.put("canonical", Arrays.equals(bytes, (byte[]) prefixed.invoke(null, as, value)));
                } catch (Throwable failure) {
                    node.removeAll();
                    node.put("error", said(failure));
                }
            }
            JSON.writeValue(answer, nodes);
        }

        /** Message name, JSON array of {version, value}; answers as encode does, with the bytes as the key. */
        void encodeEmbedded(DataInputStream request, ByteArrayOutputStream answer) throws Throwable {
            Class<?> type = loader.loadClass(CLIENTS + request.readUTF());
            DataOutputStream out = new DataOutputStream(answer);
            for (JsonNode item : JSON.readTree(request.readAllBytes())) {
                byte[] bytes;
                try {
                    bytes = encode(type, item.get("value"), (short) item.get("version").intValue());
                } catch (Throwable failure) {
                    out.writeByte(1);
                    writeBytes(out, said(failure).getBytes("UTF-8"));
                    continue;
                }
                out.writeByte(0);
                writeBytes(out, bytes);
                writeBytes(out, null);
            }
        }

        private byte[] encode(Class<?> type, JsonNode json, short number) throws Throwable {
            MethodHandle reader = readers.get(type);
            if (reader == null) {
                Class<?> converter = loader.loadClass(type.getName() + "JsonConverter");
                reader = MethodHandles.publicLookup()
                    .findStatic(converter, "read", MethodType.methodType(type, JsonNode.class, short.class))
                    .asType(MethodType.methodType(Object.class, JsonNode.class, short.class));
                readers.put(type, reader);
            }
            return (byte[]) prefixed.invoke(null, number, (Object) reader.invokeExact(json, number));
        }

        private JsonNode write(Object value, short number) throws Throwable {
            Class<?> type = value.getClass();
            MethodHandle writer = writers.get(type);
            if (writer == null) {
                writer = writer(type);
                writers.put(type, writer);
            }
            return (JsonNode) writer.invokeExact(value, number);
        }

        private MethodHandle writer(Class<?> type) throws Throwable {
            MethodType form = MethodType.methodType(JsonNode.class, Object.class, short.class);
            try {
                Class<?> converter = loader.loadClass(type.getName() + "JsonConverter");
                MethodType theirs = MethodType.methodType(JsonNode.class, type, short.class);
                return MethodHandles.publicLookup().findStatic(converter, "write", theirs).asType(form);
            } catch (ClassNotFoundException before40) {
                return MethodHandles.lookup().findVirtual(Release.class, "reflect", form).bindTo(this);
            }
        }

        /** What the JSON converters do, for releases whose jars have none for this message. */
        private JsonNode reflect(Object value, short number) throws Throwable {
            JsonNodeFactory nodes = JsonNodeFactory.instance;
            if (value == null) return nodes.nullNode();
            if (value instanceof String text) return nodes.textNode(text);
            if (value instanceof Number whole) return nodes.numberNode(whole.longValue());
            if (value instanceof byte[] bytes) return nodes.textNode(Base64.getEncoder().encodeToString(bytes));
            if (uuid.isInstance(value)) return nodes.textNode(value.toString());
            if (value instanceof List<?> list) {
                ArrayNode array = nodes.arrayNode();
                for (Object item : list) array.add(reflect(item, number));
                return array;
            }
            ObjectNode node = nodes.objectNode();
            Object schema = ((Object[]) value.getClass().getField("SCHEMAS").get(null))[number];
            for (Object field : (Object[]) schema.getClass().getMethod("fields").invoke(schema)) {
                Object definition = field.getClass().getField("def").get(field);
                String snake = (String) definition.getClass().getField("name").get(definition);
                if (snake.startsWith("_")) continue; // the section of tagged fields: 3.7 has none of its own
                String name = camel(snake);
                node.set(name, reflect(value.getClass().getMethod(name).invoke(value), number));
            }
            return node;
        }

        private static String camel(String snake) {
            StringBuilder name = new StringBuilder();
            for (String word : snake.split("_"))
                name.append(name.isEmpty() ? word : word.substring(0, 1).toUpperCase() + word.substring(1));
            return name.toString();
        }
    }
}
