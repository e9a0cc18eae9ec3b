"""A RocketMQ client for Twisted programs: `Cluster`, and on it `Producer`, `Consumer` and `Admin`. Deferreds
throughout, which `await` takes as well; works against hatwisted and RocketMQ 4.x and 5.x brokers."""

from hatwisted.client.admin import Admin
from hatwisted.client.beginning import ConsumeFrom
from hatwisted.client.cluster import Cluster
from hatwisted.client.consumer import Consumer
from hatwisted.client.errors import ClientError
from hatwisted.client.message import Message, ReceivedMessage
from hatwisted.client.producer import Producer
from hatwisted.client.sending import SendResult, SendStatus
from hatwisted.client.subscription import Sql
from hatwisted.client.transactions import TransactionProducer, TransactionState

__all__ = [
    "Admin",
    "ClientError",
    "Cluster",
    "ConsumeFrom",
    "Consumer",
    "Message",
    "Producer",
    "ReceivedMessage",
    "SendResult",
    "SendStatus",
    "Sql",
    "TransactionProducer",
    "TransactionState",
]
