"""A RocketMQ client for asyncio programs: `Cluster`, and on it `Producer`, `Consumer` and `Admin`. Coroutines
throughout, `async with` and `async for`; no reactor, no thread.

The logic is `hatwisted.clientcore`; here are its driver (`driver`, `link`) and its methods as coroutines of
asyncio (`members`, `cluster`)."""

from hatwisted.aio.cluster import Cluster
from hatwisted.aio.members import Admin, Consumer, Producer, TransactionProducer
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
