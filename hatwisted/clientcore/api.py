"""What a program imports beside its Cluster, the same on every loop: messages, results, options, errors."""

from hatwisted.clientcore.admin import LATEST, GroupSettings, QueueProgress
from hatwisted.clientcore.credentials import Credentials
from hatwisted.clientcore.delivery import RECONSUME_LATER, AckIndex, Listener
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
    OffsetsNotFound,
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
from hatwisted.clientcore.options import ConsumeFrom, ConsumerKeywords, ProducerKeywords
from hatwisted.clientcore.sending import SendResult, SendStatus
from hatwisted.clientcore.subscription import Sql
from hatwisted.clientcore.tls import Tls
from hatwisted.clientcore.transactions import Check, LocalWork, TransactionState
from hatwisted.wire.messagequeue import MessageQueue

__all__ = [
    "LATEST",
    "RECONSUME_LATER",
    "AckIndex",
    "BadAnswer",
    "BadMessage",
    "BadSetting",
    "BadTransactionState",
    "BrokerGone",
    "CallFailed",
    "CallTimedOut",
    "Check",
    "ClientError",
    "Closed",
    "ConnectFailed",
    "ConnectionGone",
    "ConsumeFrom",
    "ConsumerKeywords",
    "Credentials",
    "GroupSettings",
    "Listener",
    "LocalWork",
    "Message",
    "MessageQueue",
    "NoNameServer",
    "NoRoute",
    "OffsetsGone",
    "OffsetsNotFound",
    "ProducerFull",
    "ProducerKeywords",
    "QueueProgress",
    "ReceivedMessage",
    "Refused",
    "RefusedByAll",
    "Rejected",
    "SendFailed",
    "SendResult",
    "SendStatus",
    "Sql",
    "Tls",
    "TooManyCalls",
    "TransactionState",
    "UnreadableBody",
    "Unsettled",
]
