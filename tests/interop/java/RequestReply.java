import java.nio.charset.StandardCharsets;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.RequestCallback;
import org.apache.rocketmq.client.utils.MessageUtil;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageConst;
import org.apache.rocketmq.common.message.MessageExt;

/** Both ends of request and reply. Arguments: name servers. The selector form: see remoting.md, section 5. */
public final class RequestReply {
    private static final int TIMEOUT = 30_000;

    public static void main(String[] arguments) throws Exception {
        DefaultMQProducer asking = producer(arguments[0], "asking");
        DefaultMQProducer answering = producer(arguments[0], "answering");
        Console.serve(words -> {
            if (words[0].equals("serve")) {
                serve(arguments[0], words[1], answering);
            } else {
                ask(asking, words[1], words[2]);
            }
        });
    }

    private static DefaultMQProducer producer(String servers, String name) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer("java-" + name);
        producer.setNamesrvAddr(servers);
        producer.setInstanceName(name);
        Console.patient(producer);
        producer.setSendMsgTimeout(TIMEOUT);
        producer.start();
        return producer;
    }

    private static void serve(String servers, String topic, DefaultMQProducer answering) throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer("java-replier");
        consumer.setNamesrvAddr(servers);
        consumer.setInstanceName("replier");
        Console.patient(consumer);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setPollNameServerInterval(1000);
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            for (MessageExt each : messages) {
                if (each.getProperty(MessageConst.PROPERTY_MESSAGE_REPLY_TO_CLIENT) == null) {
                    continue; // asks for no reply
                }
                try {
                    String body = "reply to " + new String(each.getBody(), StandardCharsets.UTF_8);
                    Message reply = MessageUtil.createReplyMessage(each, body.getBytes(StandardCharsets.UTF_8));
                    Console.say("answered", answering.send(reply).getSendStatus());
                } catch (Exception error) {
                    Console.say("refused", error);
                }
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
    }

    private static void ask(DefaultMQProducer asking, String topic, String body) throws Exception {
        CountDownLatch waiting = new CountDownLatch(1);
        Message request = new Message(topic, body.getBytes(StandardCharsets.UTF_8));
        asking.request(request, (queues, message, key) -> queues.get(0), null, new RequestCallback() {
            @Override
            public void onSuccess(Message message) {
                Console.say("reply", new String(message.getBody(), StandardCharsets.UTF_8));
                waiting.countDown();
            }

            @Override
            public void onException(Throwable error) {
                Console.say("refused", error);
                waiting.countDown();
            }
        }, TIMEOUT);
        if (!waiting.await(2L * TIMEOUT, TimeUnit.MILLISECONDS)) {
            throw new IllegalStateException("no reply and no error");
        }
    }
}
