import com.sun.tools.attach.VirtualMachine;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import javax.management.MBeanServerConnection;
import javax.management.ObjectName;
import javax.management.remote.JMXConnectorFactory;
import javax.management.remote.JMXServiceURL;

/**
 * Prints the group coordinator's metrics of a running broker at each line of its input: a line for
 * each number, with the name of its bean, a tab, its attribute, a tab, and the value. Then an empty
 * line.
 *
 * <p>Usage: java Metrics.java PID
 */
public class Metrics {
  private static final String[] BEANS = {
    "kafka.server:type=group-coordinator-metrics,*",
    "kafka.coordinator.group:type=GroupMetadataManager,*",
  };

  public static void main(String[] arguments) throws Exception {
    VirtualMachine machine = VirtualMachine.attach(arguments[0]);
    JMXServiceURL url = new JMXServiceURL(machine.startLocalManagementAgent());
    try (var connector = JMXConnectorFactory.connect(url)) {
      MBeanServerConnection server = connector.getMBeanServerConnection();
      var input = new BufferedReader(new InputStreamReader(System.in));
      while (input.readLine() != null) {
        for (String pattern : BEANS) {
          print(server, new ObjectName(pattern));
        }
        System.out.println();
      }
    }
    machine.detach();
  }

  private static void print(MBeanServerConnection server, ObjectName pattern) throws Exception {
    for (ObjectName bean : server.queryNames(pattern, null)) {
      for (var attribute : server.getMBeanInfo(bean).getAttributes()) {
        Object value = server.getAttribute(bean, attribute.getName());
        if (value instanceof Number) {
          System.out.println(bean + "\t" + attribute.getName() + "\t" + value);
        }
      }
    }
  }
}
