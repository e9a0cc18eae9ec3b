"""Keys that RocketMQ 4.9.7 reads and that have no effect here: a running broker's file must start unchanged.

They are accepted silently (most tune thread pools of a JVM, or limits that are constants here), except
where ignoring a key would surprise its owner: those get a warning, or are refused if data would be
misread.

The lists are the setters of the classes named, the only thing RocketMQ matches keys against.
"""

from __future__ import annotations

from typing import NamedTuple

# BrokerConfig, MessageStoreConfig, NettyServerConfig, NettyClientConfig, and the address server's two.
UNUSED_BROKER_KEYS = frozenset(
    """
    adminBrokerThreadPoolNums autoDeleteUnusedStats bitMapLengthConsumeQueueExt
    brokerFastFailureEnable channelNotActiveInterval clientAsyncSemaphoreValue
    clientCallbackExecutorThreads clientChannelMaxIdleTimeSeconds clientCloseSocketIfTimeout
    clientManagerThreadPoolQueueCapacity clientManageThreadPoolNums clientOnewaySemaphoreValue
    clientPooledByteBufAllocatorEnable clientWorkerThreads commercialBaseCount commercialBigCount
    commercialEnable commercialTimerCount commercialTransCount commitCommitLogLeastPages
    commitCommitLogThoroughInterval commitIntervalCommitLog connectTimeoutMillis
    consumerFallbehindThreshold consumerManagerThreadPoolQueueCapacity consumerManageThreadPoolNums
    debugLockEnable defaultQueryMaxNum deleteConsumeQueueFilesInterval destroyMapedFileIntervalForcibly
    disableConsumeIfConsumerReadSlowly diskFallRecorded dLegerGroup dLegerPeers dLegerSelfId
    duplicationEnable enableBatchPush enableCalcFilterBitMap enableConsumeQueueExt enableDetailStat
    enableDLegerCommitLog enableLmq enableMultiDispatch enableScheduleAsyncDeliver
    enableScheduleMessageStats endTransactionPoolQueueCapacity endTransactionThreadPoolNums
    expectConsumerNumUseFilter fastFailIfNoBufferInStorePool fetchNamesrvAddrByAddressServer
    filterServerNums flushCommitLogTimed
    flushConsumeQueueLeastPages flushConsumeQueueThoroughInterval flushConsumerOffsetHistoryInterval
    flushIntervalConsumeQueue
    flushLeastPagesWhenWarmMapedFile haListenPort heartbeatThreadPoolNums
    heartbeatThreadPoolQueueCapacity highSpeedMode isolateLogEnable mappedFileSizeConsumeQueueExt
    maxDelayTime maxErrorRateOfBloomFilter maxLmqConsumeQueueNum maxMsgsNumBatch
    maxTransferBytesOnMessageInDisk maxTransferBytesOnMessageInMemory maxTransferCountOnMessageInDisk
    maxTransferCountOnMessageInMemory messageStorePlugIn notifyConsumerIdsChangedEnable offsetCheckInSlave
    osPageCacheBusyTimeOutMills preferredLeaderId processReplyMessageThreadPoolNums
    pullMessageThreadPoolNums pullThreadPoolQueueCapacity putMessageFutureThreadPoolNums
    putMsgIndexHightWater putThreadPoolQueueCapacity queryMessageThreadPoolNums
    queryThreadPoolQueueCapacity readOnlyCommitLogStorePaths redeleteHangedFileInterval regionId
    rejectTransactionMessage replyThreadPoolQueueCapacity rmqAddressServerDomain rmqAddressServerSubGroup
    scheduleAsyncDeliverMaxPendingLimit scheduleAsyncDeliverMaxResendNum2Blocked
    sendMessageThreadPoolNums sendThreadPoolQueueCapacity serverAsyncSemaphoreValue
    serverCallbackExecutorThreads serverOnewaySemaphoreValue
    serverPooledByteBufAllocatorEnable serverSelectorThreads serverWorkerThreads
    startAcceptSendRequestTimeStamp storePathDLedgerCommitLog storeReplyMessageEnable traceOn
    transferMsgByHeap
    transientStorePoolEnable transientStorePoolSize useEpollNativeSelector useReentrantLockWhenPutMessage
    waitTimeMillsInHeartbeatQueue waitTimeMillsInPullQueue waitTimeMillsInSendQueue
    waitTimeMillsInTransactionQueue warmMapedFileEnable writeBufferHighWaterMark writeBufferLowWaterMark
    """.split()
)

FORMER_BROKER_KEYS = {
    "mapedFileSizeCommitLog": "mappedFileSizeCommitLog",
    "mapedFileSizeConsumeQueue": "mappedFileSizeConsumeQueue",
}
"""Keys as older versions of RocketMQ spelt them, and as many files and documents still have them. 4.9.7 silently
ignores them, and lays a store out with its default sizes."""

# NamesrvConfig, NettyServerConfig.
UNUSED_NAMESRV_KEYS = frozenset(
    """
    clusterTest productEnvName serverAsyncSemaphoreValue
    serverCallbackExecutorThreads serverOnewaySemaphoreValue
    serverPooledByteBufAllocatorEnable serverSelectorThreads serverWorkerThreads useEpollNativeSelector
    writeBufferHighWaterMark writeBufferLowWaterMark
    """.split()
)


ACCESS_KEYS = frozenset(
    """
    aclEnable aclPlainFile rocketmqHome credentialsFile listenAllowList adminAllowList haAllowList
    proxyProtocolFrom metricsAddress metricsTlsMode dashboardAddress dashboardPasswordFile dashboardTlsMode
    """.split()
)
"""They say who is let in: whoever may change other keys by a request mustn't let in others as well."""


class UnsupportedKey(NamedTuple):
    """What setting a key means here. refuse: starting would misread data."""

    text: str
    refuse: bool = False


# Of keys that hold neither nothing nor `false`.
UNSUPPORTED_KEYS = {
    "enableDLegerCommitLog": UnsupportedKey("a DLedger commit log has another format", refuse=True),
    "readOnlyCommitLogStorePaths": UnsupportedKey(
        "a commit log in several folders is not supported", refuse=True
    ),
    "enableConsumeQueueExt": UnsupportedKey("the consume queue extension is neither read nor written"),
    "enableMultiDispatch": UnsupportedKey("messages are dispatched to their own queue only"),
    "enableLmq": UnsupportedKey("messages are dispatched to their own queue only"),
    "messageStorePlugIn": UnsupportedKey("Java plug-ins are not loaded"),
    "fetchNamesrvAddrByAddressServer": UnsupportedKey("no address server is asked; set namesrvAddr"),
}


def unsupported_key(key: str, value: str) -> UnsupportedKey | None:
    """What the operator must know about this entry, if anything."""
    return None if value.strip().lower() in ("", "false") else UNSUPPORTED_KEYS.get(key)
