import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.MessageSelector;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyContext;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragely;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * Push consumers by name, several of them if told so. Arguments: name servers, folder of broadcast offsets.
 * A message whose body begins with "bad" fails, always in a concurrent consumer and once in an orderly one.
 */
public final class PushConsumer {
    private static final Map<String, DefaultMQPushConsumer> CONSUMERS = new HashMap<>();

    public static void main(String[] arguments) throws Exception {
        Console.serve(words -> {
            switch (words[0]) {
                case "start": // name, group, topic, expression, model
                    start(arguments[0], words[1], words[2], words[3], words[4], words[5]);
                    break;
                case "pause":
                    CONSUMERS.get(words[1]).suspend();
                    break;
                case "resume":
                    CONSUMERS.get(words[1]).resume();
                    break;
                case "stop":
                    CONSUMERS.remove(words[1]).shutdown();
                    break;
                default:
                    throw new IllegalArgumentException(words[0]);
            }
        });
    }

    private static void start(String servers, String name, String group, String topic, String expression, String model)
        throws Exception {
        DefaultMQPushConsumer consumer =
            new DefaultMQPushConsumer(group, Console.account(), new AllocateMessageQueueAveragely());
        consumer.setNamesrvAddr(servers);
        consumer.setInstanceName(name);
        Console.patient(consumer);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setPollNameServerInterval(1000);
        consumer.setHeartbeatBrokerInterval(1000);
        consumer.setPersistConsumerOffsetInterval(1000);
        consumer.setMaxReconsumeTimes(2);
        if (expression.startsWith("SQL ")) {
            consumer.subscribe(topic, MessageSelector.bySql(expression.substring(4)));
        } else {
            consumer.subscribe(topic, expression);
        }
        if (model.equals("ORDERLY")) {
            consumer.setSuspendCurrentQueueTimeMillis(100);
            consumer.registerMessageListener((MessageListenerOrderly) (messages, context) -> {
                boolean failed = messages.stream().anyMatch(each -> bad(each) && each.getReconsumeTimes() == 0);
                messages.forEach(each -> got(name, each));
                return failed ? ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT : ConsumeOrderlyStatus.SUCCESS;
            });
        } else {
            setModel(consumer, model);
            consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
                messages.forEach(each -> got(name, each));
                return messages.stream().anyMatch(PushConsumer::bad)
                    ? ConsumeConcurrentlyStatus.RECONSUME_LATER : ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
            });
        }
        consumer.start();
        CONSUMERS.put(name, consumer);
    }

    /** MessageModel lives in different packages in 4.x and 5.x. */
    @SuppressWarnings({"unchecked", "rawtypes"})
    private static void setModel(DefaultMQPushConsumer consumer, String model) throws Exception {
        for (Method method : DefaultMQPushConsumer.class.getMethods()) {
            if (method.getName().equals("setMessageModel")) {
                method.invoke(consumer, Enum.valueOf((Class<Enum>) method.getParameterTypes()[0], model));
            }
        }
    }

    private static boolean bad(MessageExt message) {
        return new String(message.getBody(), StandardCharsets.UTF_8).startsWith("bad");
    }

    private static void got(String name, MessageExt message) {
        Console.say("got", name, new String(message.getBody(), StandardCharsets.UTF_8), message.getQueueId(),
            message.getQueueOffset(), message.getReconsumeTimes(), message.getTopic(), message.getMsgId());
    }
}
