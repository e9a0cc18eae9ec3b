import java.nio.charset.StandardCharsets;
import java.util.Collection;
import java.util.List;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/** Lite pull, by subscription and by assignment. Arguments: name servers. */
public final class LitePull {
    public static void main(String[] arguments) throws Exception {
        Console.serve(words -> {
            switch (words[0]) {
                case "subscribe": // group, topic, expression, count
                    subscribe(arguments[0], words[1], words[2], words[3], Integer.parseInt(words[4]));
                    break;
                case "assign": // group, topic, offset, count
                    assign(arguments[0], words[1], words[2], Long.parseLong(words[3]), Integer.parseInt(words[4]));
                    break;
                default:
                    throw new IllegalArgumentException(words[0]);
            }
        });
    }

    private static void subscribe(String servers, String group, String topic, String expression, int count)
        throws Exception {
        DefaultLitePullConsumer consumer = consumer(servers, group);
        consumer.subscribe(topic, expression);
        consumer.start();
        poll(consumer, count);
        consumer.shutdown();
    }

    private static void assign(String servers, String group, String topic, long offset, int count) throws Exception {
        DefaultLitePullConsumer scout = consumer(servers, group);
        scout.start();
        Collection<MessageQueue> queues = scout.fetchMessageQueues(topic);
        scout.shutdown();
        DefaultLitePullConsumer consumer = consumer(servers, group);
        // Paused until sought: the client may hand out what a pull that was under way then has brought.
        consumer.assign(queues);
        consumer.pause(queues);
        consumer.start();
        for (MessageQueue queue : queues) {
            consumer.seek(queue, offset);
        }
        consumer.resume(queues);
        poll(consumer, count);
        consumer.commitSync();
        for (MessageQueue queue : queues) {
            Console.say("committed", queue.getQueueId(), consumer.committed(queue));
        }
        consumer.shutdown();
    }

    private static DefaultLitePullConsumer consumer(String servers, String group) {
        DefaultLitePullConsumer consumer = new DefaultLitePullConsumer(group);
        consumer.setNamesrvAddr(servers);
        Console.patient(consumer);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setPollNameServerInterval(1000);
        return consumer;
    }

    private static void poll(DefaultLitePullConsumer consumer, int count) {
        long deadline = System.currentTimeMillis() + 100_000;
        for (int seen = 0; seen < count && System.currentTimeMillis() < deadline; ) {
            List<MessageExt> messages = consumer.poll(500);
            seen += messages.size();
            for (MessageExt message : messages) {
                Console.say("got", new String(message.getBody(), StandardCharsets.UTF_8), message.getQueueId(),
                    message.getQueueOffset());
            }
        }
    }
}
