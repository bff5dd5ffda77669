import com.google.re2j.Pattern;
import com.google.re2j.PatternSyntaxException;
import java.io.*;
import java.nio.charset.StandardCharsets;

/**
 * The regular expressions of brokers (RE2J), one a line.
 *
 * In: EXPRESSION TAB NAME TAB NAME ...
 * Out: "refused", or for each name 1 if the expression matches all of it and 0 if not.
 */
public class Match {
    public static void main(String[] args) throws Exception {
        var in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        var out = new StringBuilder();
        for (String line; (line = in.readLine()) != null; ) {
            String[] parts = line.split("\t", -1);
            try {
                Pattern pattern = Pattern.compile(parts[0]);
                for (int i = 1; i < parts.length; i++) out.append(pattern.matcher(parts[i]).matches() ? 1 : 0);
            } catch (PatternSyntaxException bad) {
                out.append("refused");
            }
            out.append('\n');
        }
        System.out.print(out);
    }
}
