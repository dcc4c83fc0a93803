import io.debezium.embedded.Connect;
import io.debezium.engine.DebeziumEngine;
import io.debezium.engine.RecordChangeEvent;
import io.debezium.engine.format.ChangeEventFormat;
import io.debezium.transforms.ExtractNewRecordState;
import java.io.StringReader;
import java.io.Reader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.sql.Connection;
import java.sql.DriverManager;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.json.JsonConverter;
import org.apache.kafka.connect.source.SourceRecord;
import org.postgresql.PGConnection;

/**
 * Runs Debezium engines and lands what they emit, as a Kafka Connect source
 * with JSON converters and a sink that loads every record as it is would do.
 *
 * <p>Arguments: a properties file, then the names of the engines to run. A
 * line "engine.NAME.KEY" holds for that engine alone and beats "KEY". Lines
 * "landing.*" say where to: url, user, password, schema, and how long to pause
 * after a batch (pause.ms). Each engine has one
 * landing table per form, SCHEMA.NAME_FORM (id, topic, key, value):
 *
 * <ul>
 *   <li>env: the envelope, schemas.enable=false
 *   <li>schema: the envelope with its schema block, schemas.enable=true
 *   <li>flat: after ExtractNewRecordState, whose options are the lines
 *       "flat.*"; schemas.enable=false
 * </ul>
 *
 * <p>A batch is landed in one transaction before the engine may note its
 * offset, so a kill at any moment loses nothing and makes the engine send
 * again what it had not noted.
 */
public class Capture {
  private final String name;
  private final Properties properties;
  private final Connection landing;
  private final Map<String, Form> forms = new HashMap<>();
  private final long pause;
  private long landed;

  /** One shape of the records: a transform, maybe, and a pair of converters. */
  private static class Form {
    final ExtractNewRecordState<SourceRecord> flatten;
    final JsonConverter key = new JsonConverter();
    final JsonConverter value = new JsonConverter();
    final String table;

    Form(String form, String table, Properties p) {
      this.table = table;
      Map<String, String> converter = new HashMap<>();
      converter.put("schemas.enable", String.valueOf(form.equals("schema")));
      // else a NULL in a column with a DEFAULT is written as that default
      converter.put("replace.null.with.default", p.getProperty("replace.null.with.default", "false"));
      value.configure(converter, false);
      converter.put("schemas.enable", "false");
      key.configure(converter, true);
      if (form.equals("flat")) {
        flatten = new ExtractNewRecordState<>();
        flatten.configure(part(p, "flat."));
      } else {
        flatten = null;
      }
    }

    /** Appends the record as lines of COPY's text format. */
    void write(SourceRecord record, StringBuilder lines) {
      SourceRecord r = flatten == null ? record : flatten.apply(record);
      if (r == null) {
        return; // the transform drops what it cannot flatten
      }
      lines.append(escape(r.topic().getBytes(StandardCharsets.UTF_8))).append('\t');
      lines.append(escape(json(key, r.topic(), r.keySchema(), r.key()))).append('\t');
      lines.append(escape(json(value, r.topic(), r.valueSchema(), r.value()))).append('\n');
    }
  }

  private static byte[] json(JsonConverter converter, String topic, Schema schema, Object data) {
    return data == null ? null : converter.fromConnectData(topic, schema, data);
  }

  private static String escape(byte[] bytes) {
    if (bytes == null) {
      return "\\N";
    }
    return new String(bytes, StandardCharsets.UTF_8)
        .replace("\\", "\\\\").replace("\t", "\\t").replace("\n", "\\n").replace("\r", "\\r");
  }

  /** The lines that begin with the prefix, without it. */
  private static Map<String, String> part(Properties all, String prefix) {
    Map<String, String> some = new HashMap<>();
    for (String key : all.stringPropertyNames()) {
      if (key.startsWith(prefix)) {
        some.put(key.substring(prefix.length()), all.getProperty(key));
      }
    }
    return some;
  }

  Capture(String name, Properties all) throws Exception {
    this.name = name;
    properties = new Properties();
    for (String key : all.stringPropertyNames()) {
      if (!key.startsWith("engine.")) {
        properties.setProperty(key, all.getProperty(key));
      }
    }
    properties.putAll(part(all, "engine." + name + "."));
    properties.setProperty("name", name);
    landing = DriverManager.getConnection(properties.getProperty("landing.url"),
        properties.getProperty("landing.user"), properties.getProperty("landing.password"));
    landing.setAutoCommit(false);
    pause = Long.parseLong(properties.getProperty("landing.pause.ms", "0"));
    String schema = properties.getProperty("landing.schema");
    for (String form : properties.getProperty("forms").split(",")) {
      forms.put(form, new Form(form, schema + "." + name + "_" + form, properties));
    }
  }

  private void land(List<RecordChangeEvent<SourceRecord>> batch,
      DebeziumEngine.RecordCommitter<RecordChangeEvent<SourceRecord>> committer) throws InterruptedException {
    try {
      for (Form form : forms.values()) {
        StringBuilder lines = new StringBuilder();
        for (RecordChangeEvent<SourceRecord> event : batch) {
          form.write(event.record(), lines);
        }
        try (Reader reader = new StringReader(lines.toString())) {
          landing.unwrap(PGConnection.class).getCopyAPI()
              .copyIn("COPY " + form.table + " (topic, key, value) FROM STDIN", reader);
        }
      }
      landing.commit();
      Thread.sleep(pause);
    } catch (Exception e) {
      throw new RuntimeException("landing failed", e);
    }
    for (RecordChangeEvent<SourceRecord> event : batch) {
      committer.markProcessed(event);
    }
    committer.markBatchFinished();
    landed += batch.size();
  }

  private DebeziumEngine<RecordChangeEvent<SourceRecord>> engine() {
    return DebeziumEngine.create(ChangeEventFormat.of(Connect.class))
        .using(properties)
        .notifying(this::land)
        .using((success, message, error) -> {
          System.err.println("engine " + name + " ended after " + landed + " records: " + message);
          if (error != null) {
            error.printStackTrace();
          }
          if (!success) {
            Runtime.getRuntime().halt(1);
          }
        })
        .build();
  }

  public static void main(String[] arguments) throws Exception {
    Properties all = new Properties();
    try (Reader reader = Files.newBufferedReader(Path.of(arguments[0]))) {
      all.load(reader);
    }
    ExecutorService pool = Executors.newCachedThreadPool();
    List<DebeziumEngine<RecordChangeEvent<SourceRecord>>> engines = new ArrayList<>();
    for (int i = 1; i < arguments.length; i++) {
      engines.add(new Capture(arguments[i], all).engine());
    }
    Runtime.getRuntime().addShutdownHook(new Thread(() -> {
      for (DebeziumEngine<RecordChangeEvent<SourceRecord>> engine : engines) {
        try {
          engine.close();
        } catch (Exception e) {
          System.err.println(e);
        }
      }
    }));
    for (DebeziumEngine<RecordChangeEvent<SourceRecord>> engine : engines) {
      pool.execute(engine);
    }
    pool.shutdown();
  }
}
