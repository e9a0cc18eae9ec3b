import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import org.apache.rocketmq.acl.common.AclClientRPCHook;
import org.apache.rocketmq.acl.common.SessionCredentials;
import org.apache.rocketmq.client.ClientConfig;
import org.apache.rocketmq.remoting.RPCHook;

/**
 * What a test and a client program say to each other: lines of tab-separated words. Commands come on standard
 * input and are carried out one by one; each ends with "done", or with "failed" and the reason. Lines of ours
 * begin with "> ", so that whatever a library prints can't be taken for one.
 */
final class Console {
    interface Command {
        void run(String[] words) throws Exception;
    }

    /** Milliseconds. */
    static final int PATIENCE = 20_000;
    private static final int TRIES = 10;
    private static volatile long said;

    private Console() {
    }

    static synchronized void say(Object... words) {
        said++;
        StringBuilder line = new StringBuilder(">");
        for (Object word : words) {
            line.append(line.length() == 1 ? ' ' : '\t').append(word);
        }
        System.out.println(line);
        System.out.flush();
    }

    /** Signs requests for the account that -Daccount=KEY:SECRET names; null without one. */
    static RPCHook account() {
        String[] account = System.getProperty("account", "").split(":");
        return account.length < 2 ? null : new AclClientRPCHook(new SessionCredentials(account[0], account[1]));
    }

    /** Gives servers more time to answer than the 3 s after which a client gives up: a busy machine's need it. */
    static void patient(ClientConfig client) {
        client.setMqClientApiTimeout(PATIENCE);
    }

    static void serve(Command command) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        say("ready");
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            carryOut(command, line.split("\t", -1));
        }
        System.exit(0);
    }

    private static void carryOut(Command command, String[] words) {
        for (int left = TRIES; ; left--) {
            long before = said;
            try {
                command.run(words);
                say("done", words[0]);
                return;
            } catch (Throwable error) {
                if (left > 1 && said == before && String.valueOf(error.getMessage()).startsWith("No route info")) {
                    continue; // nothing was sent: a thread of its own has held the lock of its routes for 3 s
                }
                String cause = error.getCause() == null ? "" : ": " + error.getCause();
                say("failed", words[0], (error + cause).replaceAll("\\s+", " "));
                return;
            }
        }
    }
}
