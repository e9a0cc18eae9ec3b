import org.apache.rocketmq.broker.BrokerController;
import org.apache.rocketmq.broker.filter.ConsumerFilterManager;
import org.apache.rocketmq.common.BrokerConfig;
import org.apache.rocketmq.remoting.netty.NettyClientConfig;
import org.apache.rocketmq.remoting.netty.NettyServerConfig;
import org.apache.rocketmq.store.config.MessageStoreConfig;

/** Writes the consumerFilter.json of a broker with default settings and three filters to standard error. */
public class ConsumerFilterFile {
    public static void main(String[] arguments) throws Exception {
        BrokerController broker = new BrokerController(
            new BrokerConfig(), new NettyServerConfig(), new NettyClientConfig(), new MessageStoreConfig());
        ConsumerFilterManager filters = broker.getConsumerFilterManager();
        filters.register("T", "g", "a > 5 AND b = 'it''s \u00e4'", "SQL92", 1795222023480L);
        filters.register("T", "g2", "a > 5", "SQL92", 1L);
        filters.register("Topic-two", "other%group", "c IN ('x')", "SQL92", 2L);
        filters.unRegister("g2");
        System.err.print(filters.encode(true));
        System.exit(0);
    }
}
