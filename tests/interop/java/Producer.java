import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/** A producer of every kind. Arguments: name servers. Bodies are the prefix of a command and a number. */
public final class Producer {
    public static void main(String[] arguments) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer("java-producer", Console.account());
        producer.setNamesrvAddr(arguments[0]);
        Console.patient(producer);
        producer.setSendMsgTimeout(Console.PATIENCE);
        producer.setPollNameServerInterval(1000);
        producer.setCompressMsgBodyOverHowmuch(Integer.MAX_VALUE);
        producer.start();
        TransactionMQProducer transactions = new TransactionMQProducer("java-transactions", Console.account());
        transactions.setNamesrvAddr(arguments[0]);
        Console.patient(transactions);
        transactions.setSendMsgTimeout(Console.PATIENCE);
        transactions.setTransactionListener(new Outcomes());
        transactions.start();
        Console.serve(words -> {
            if (words[0].equals("transaction")) {
                Message message = new Message(words[1], bytes(words[2]));
                sent(message, transactions.sendMessageInTransaction(message, words[3]));
            } else {
                run(producer, words[0], words[1], words[2], Integer.parseInt(words[3]));
            }
        });
    }

    private static void run(DefaultMQProducer producer, String how, String topic, String prefix, int count)
        throws Exception {
        switch (how) {
            case "sync":
                for (int i = 0; i < count; i++) {
                    Message message = message(topic, prefix, i);
                    sent(message, producer.send(message));
                }
                break;
            case "async":
                async(producer, topic, prefix, count);
                break;
            case "oneway":
                for (int i = 0; i < count; i++) {
                    producer.sendOneway(message(topic, prefix, i));
                }
                break;
            case "batch":
                List<Message> batch = new ArrayList<>();
                for (int i = 0; i < count; i++) {
                    batch.add(message(topic, prefix, i));
                }
                sent(batch.get(0), producer.send(batch));
                break;
            case "ordered":
                for (int i = 0; i < count; i++) {
                    Message message = message(topic, prefix, i);
                    SendResult result =
                        producer.send(message, (queues, each, key) -> queues.get((Integer) key % queues.size()), i % 3);
                    sent(message, result);
                }
                break;
            case "delay":
                Message message = message(topic, prefix, 0);
                message.setDelayTimeLevel(count);
                sent(message, producer.send(message));
                break;
            case "large":
                Message large = new Message(topic, new byte[count]);
                sent(large, producer.send(large));
                break;
            default:
                throw new IllegalArgumentException(how);
        }
    }

    private static void async(DefaultMQProducer producer, String topic, String prefix, int count) throws Exception {
        CountDownLatch waiting = new CountDownLatch(count);
        for (int i = 0; i < count; i++) {
            Message message = message(topic, prefix, i);
            producer.send(message, new SendCallback() {
                @Override
                public void onSuccess(SendResult result) {
                    sent(message, result);
                    waiting.countDown();
                }

                @Override
                public void onException(Throwable error) {
                    Console.say("refused", new String(message.getBody(), StandardCharsets.UTF_8), error);
                    waiting.countDown();
                }
            });
        }
        if (!waiting.await(Console.PATIENCE, TimeUnit.MILLISECONDS)) {
            throw new IllegalStateException(waiting.getCount() + " callbacks never came");
        }
    }

    /** Tag, key and a numeric user property follow from the number, for filters to choose by. */
    private static Message message(String topic, String prefix, int number) {
        String tag = number % 2 == 0 ? "even" : "odd";
        Message message = new Message(topic, tag, prefix + "-key" + number, bytes(prefix + number));
        message.putUserProperty("number", Integer.toString(number));
        return message;
    }

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    private static void sent(Message message, SendResult result) {
        String body = message.getBody().length > 100 ? "" : new String(message.getBody(), StandardCharsets.UTF_8);
        Console.say("sent", body, result.getSendStatus(), result.getMessageQueue().getBrokerName(),
            result.getMessageQueue().getQueueId(), result.getQueueOffset(), result.getMsgId(), result.getOffsetMsgId());
    }

    /** The argument of a transaction is its outcome; an undecided one is committed when the broker asks. */
    private static final class Outcomes implements TransactionListener {
        @Override
        public LocalTransactionState executeLocalTransaction(Message message, Object outcome) {
            return LocalTransactionState.valueOf((String) outcome);
        }

        @Override
        public LocalTransactionState checkLocalTransaction(MessageExt message) {
            Console.say("checked", new String(message.getBody(), StandardCharsets.UTF_8), message.getTopic());
            return LocalTransactionState.COMMIT_MESSAGE;
        }
    }
}
