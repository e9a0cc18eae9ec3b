"""A RocketMQ client for Twisted programs: `Cluster`, and on it `Producer`, `Consumer` and `Admin`. Deferreds
throughout, which `await` takes as well; works against hatwisted and RocketMQ 4.x and 5.x brokers.

The logic is `hatwisted.clientcore`; here are only the reactor (`driver`) and the methods that return Deferreds
(`faces`, and with them `cluster`, `producer`, `consumer`, `admin`)."""

from hatwisted.client.admin import Admin
from hatwisted.client.cluster import Cluster
from hatwisted.client.consumer import Consumer
from hatwisted.client.producer import Producer, TransactionProducer
from hatwisted.clientcore.admin import LATEST, QueueStanding
from hatwisted.clientcore.delivery import RECONSUME_LATER, AckIndex
from hatwisted.clientcore.errors import (
    BadAnswer,
    BadMessage,
    BadSetting,
    BadTransactionState,
    BrokerGone,
    CallFailed,
    CallTimedOut,
    ClientError,
    Closed,
    ConnectFailed,
    ConnectionGone,
    NoNameServer,
    NoRoute,
    OffsetsGone,
    OffsetsNotThere,
    ProducerFull,
    Refused,
    RefusedByAll,
    Rejected,
    SendFailed,
    TooManyCalls,
    UnreadableBody,
    Unsettled,
)
from hatwisted.clientcore.message import Message, ReceivedMessage
from hatwisted.clientcore.options import ConsumeFrom
from hatwisted.clientcore.sending import SendResult, SendStatus
from hatwisted.clientcore.subscription import Sql
from hatwisted.clientcore.transactions import TransactionState
from hatwisted.wire.messagequeue import MessageQueue

__all__ = [
    "LATEST",
    "RECONSUME_LATER",
    "AckIndex",
    "Admin",
    "BadAnswer",
    "BadMessage",
    "BadSetting",
    "BadTransactionState",
    "BrokerGone",
    "CallFailed",
    "CallTimedOut",
    "ClientError",
    "Closed",
    "Cluster",
    "ConnectFailed",
    "ConnectionGone",
    "ConsumeFrom",
    "Consumer",
    "Message",
    "MessageQueue",
    "NoNameServer",
    "NoRoute",
    "OffsetsGone",
    "OffsetsNotThere",
    "Producer",
    "ProducerFull",
    "QueueStanding",
    "ReceivedMessage",
    "Refused",
    "RefusedByAll",
    "Rejected",
    "SendFailed",
    "SendResult",
    "SendStatus",
    "Sql",
    "TooManyCalls",
    "TransactionProducer",
    "TransactionState",
    "UnreadableBody",
    "Unsettled",
]
