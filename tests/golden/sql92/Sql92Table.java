import com.alibaba.fastjson.JSON;
import com.alibaba.fastjson.JSONArray;
import com.alibaba.fastjson.JSONObject;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.util.Map;
import org.apache.rocketmq.filter.expression.EvaluationContext;
import org.apache.rocketmq.filter.expression.Expression;
import org.apache.rocketmq.filter.parser.SelectorParser;

/** Reads {"expressions": [..], "messages": [{property: value}, ..]} from the file named; writes a JSON object:
 *  expression -> "refused", or a letter for each message: t(rue), f(alse), n(ull), x (evaluation failed). */
public class Sql92Table {
    public static void main(String[] arguments) throws Exception {
        byte[] text = Files.readAllBytes(Paths.get(arguments[0]));
        JSONObject cases = JSON.parseObject(new String(text, StandardCharsets.UTF_8));
        JSONArray expressions = cases.getJSONArray("expressions");
        JSONArray messages = cases.getJSONArray("messages");
        PrintStream out = new PrintStream(System.out, true, "UTF-8");
        out.println("{");
        for (int i = 0; i < expressions.size(); i++) {
            String key = JSON.toJSONString(expressions.getString(i));
            String comma = i + 1 < expressions.size() ? "," : "";
            out.println(key + ": \"" + outcomes(expressions.getString(i), messages) + "\"" + comma);
        }
        out.println("}");
    }

    static String outcomes(String text, JSONArray messages) {
        Expression expression;
        try {
            expression = SelectorParser.parse(text);
        } catch (Throwable refused) {
            return "refused";
        }
        StringBuilder letters = new StringBuilder();
        for (int i = 0; i < messages.size(); i++) {
            letters.append(outcome(expression, messages.getJSONObject(i)));
        }
        return letters.toString();
    }

    static char outcome(Expression expression, final JSONObject message) {
        try {
            Object value = expression.evaluate(new EvaluationContext() {
                public Object get(String name) {
                    return message.getString(name);
                }

                public Map<String, Object> keyValues() {
                    return message;
                }
            });
            return value == null ? 'n' : (Boolean) value ? 't' : 'f';
        } catch (Throwable failure) {
            return 'x';
        }
    }
}
