import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import org.apache.rocketmq.tools.command.MQAdminStartup;

/** mqadmin without a JVM for each command: "run" and the command line; what it prints comes as "printed". */
public final class Mqadmin {
    public static void main(String[] arguments) throws Exception {
        PrintStream console = System.out;
        PrintStream errors = System.err;
        Console.serve(words -> {
            ByteArrayOutputStream printed = new ByteArrayOutputStream();
            PrintStream stream = new PrintStream(printed, true, "UTF-8");
            System.setOut(stream);
            System.setErr(stream);
            try {
                MQAdminStartup.main0(Arrays.copyOfRange(words, 1, words.length), null);
            } finally {
                System.setOut(console);
                System.setErr(errors);
            }
            for (String line : printed.toString("UTF-8").split("\n")) {
                Console.say("printed", line.replace('\t', ' '));
            }
        });
    }
}
