"""The name server that a master brings along."""

import io
import os
import socket
import sys

from twisted.application.service import Service
from twisted.internet import reactor, task
from twisted.internet.defer import Deferred, inlineCallbacks
from twisted.trial.unittest import SynchronousTestCase, TestCase

from hatwisted.assembly import nameserver
from hatwisted.assembly.nameserver import Stack, embed_name_server, stacked
from hatwisted.clientcore.errors import CallFailed
from hatwisted.config.errors import SettingError
from hatwisted.config.load import load_broker_config
from hatwisted.config.schema import BrokerConfig
from hatwisted.remoting.client import RemotingClient
from hatwisted.remoting.tcp import TcpConnecting
from hatwisted.tap.embedded import build_master
from hatwisted.tap.realparts import real_parts
from hatwisted.wire.codes import RequestCode
from hatwisted.wire.registration import ClusterInfo, decode_body
from hatwisted.wire.remoting import RemotingCommand
from testbed.processes import BROKER_PORTS, free_port
from tests.support.loopback import HOST

CALL_SECONDS = 30


class Recorded(Service):
    """Notes what happens to it; stops when told."""

    def __init__(self, name, story):
        self.name, self.story, self.stopped = name, story, Deferred()

    def startService(self):
        super().startService()
        self.story.append(f"{self.name} starts")

    def stopService(self):
        super().stopService()
        self.story.append(f"{self.name} stops")
        return self.stopped


class TestStack(SynchronousTestCase):
    def test_started_upwards_and_stopped_downwards_one_after_the_other(self):
        story = []
        lower, upper = Recorded("lower", story), Recorded("upper", story)
        stack = stacked(lower, upper)
        stack.startService()
        done = stack.stopService()
        self.assertEqual(story, ["lower starts", "upper starts", "upper stops"])
        upper.stopped.callback(None)
        self.assertEqual(story[3:], ["lower stops"])
        self.assertNoResult(done)
        lower.stopped.callback(None)
        self.successResultOf(done)


class TestPort(SynchronousTestCase):
    def setUp(self):
        self.parts = real_parts(reactor)

    def embedded(self, wished=None):
        config = BrokerConfig(bind_address="127.0.0.1", embedded_namesrv_port=wished)
        own = embed_name_server(config, self.parts)
        self.addCleanup(own.service.stopService)
        return own

    def taken(self):
        listener = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(listener.close)
        return listener.getsockname()[1]

    def test_the_well_known_port_if_it_is_free(self):
        port = free_port()
        self.patch(nameserver, "DEFAULT_PORT", port)
        own = self.embedded()
        self.assertEqual((own.for_master, own.warning), (f"127.0.0.1:{port}", None))

    def test_any_port_and_a_loud_word_if_it_is_taken(self):
        taken = self.taken()
        self.patch(nameserver, "DEFAULT_PORT", taken)
        own = self.embedded()
        port, told = int(own.for_others.rpartition(":")[2]), own.warning
        self.assertNotEqual(port, taken)
        self.assertIn(f"can't listen on 127.0.0.1:{taken}", told)
        self.assertIn(f"the name server uses port {port}", told)

    def test_a_port_that_the_operator_chose_is_that_or_none(self):
        taken = self.taken()
        error = self.assertRaises(SettingError, self.embedded, taken)
        self.assertEqual(error.key, "embeddedNamesrvPort")


class TestMasterWithNameServer(TestCase):
    """The real thing: store, ports, registration and all."""

    def setUp(self):
        self.output = io.StringIO()
        self.patch(sys, "stdout", self.output)
        self.client = RemotingClient(TcpConnecting(reactor), reactor)
        self.addCleanup(self.client.close)

    def config(self, **settings):
        folder = self.mktemp()
        os.makedirs(folder)
        settings = {
            "listenPort": free_port(BROKER_PORTS),
            "bindAddress": "127.0.0.1",
            "brokerIP1": "127.0.0.1",
            "brokerName": "broker-a",
            "storePathRootDir": os.path.abspath(folder),
            "mappedFileSizeCommitLog": 1 << 20,
            "maxMessageSize": 1 << 16,
            "maxHashSlotNum": 100,
            "maxIndexNum": 1000,
            **settings,
        }
        return load_broker_config(
            None, [f"{key}={value}" for key, value in settings.items()], host=HOST, environ={}
        ).config

    def ask_cluster(self, address):
        command = RemotingCommand(RequestCode.GET_BROKER_CLUSTER_INFO)
        return self.client.ask(address, command, CALL_SECONDS).addCallback(
            lambda answer: decode_body(answer.body, ClusterInfo).broker_addr_table
        )

    @inlineCallbacks
    def test_a_master_without_namesrvAddr_is_found_at_the_address_it_tells_and_stops_in_order(self):
        config = self.config(embeddedNamesrvPort=free_port())
        service = build_master(config, real_parts(reactor))
        self.assertEqual(self.output.getvalue(), "")
        service.privilegedStartService()
        service.startService()
        address = f"127.0.0.1:{config.embedded_namesrv_port}"
        try:
            self.assertIn(f"its own name server, {address}\n", self.output.getvalue())
            for _ in range(2000):
                groups = yield self.ask_cluster(address)
                if groups:
                    break
                yield task.deferLater(reactor, 0.01)
            self.assertEqual(groups["broker-a"].broker_addrs, {0: f"127.0.0.1:{config.listen_port}"})
        finally:
            yield service.stopService()
        yield self.assertFailure(self.ask_cluster(address), CallFailed)

    @inlineCallbacks
    def test_no_name_server_and_no_vip_port_when_switched_off(self):
        config = self.config(embeddedNamesrv="false", vipListenEnable="false")
        service = build_master(config, real_parts(reactor))
        self.assertNotIsInstance(service, Stack)
        service.startService()
        try:
            self.assertEqual(self.output.getvalue(), "")
            command = RemotingCommand(RequestCode.GET_BROKER_RUNTIME_INFO)
            yield self.client.ask(f"127.0.0.1:{config.listen_port}", command, CALL_SECONDS)
            yield self.assertFailure(
                self.client.ask(f"127.0.0.1:{config.vip_listen_port}", command, CALL_SECONDS), CallFailed
            )
        finally:
            yield service.stopService()

    @inlineCallbacks
    def test_the_vip_port_serves_all_but_pulls(self):
        config = self.config(embeddedNamesrv="false")
        service = build_master(config, real_parts(reactor))
        service.startService()
        try:
            vip = f"127.0.0.1:{config.vip_listen_port}"
            topics = yield self.client.call(
                vip, RemotingCommand(RequestCode.GET_ALL_TOPIC_CONFIG), CALL_SECONDS
            )
            self.assertEqual(topics.code, 0)
            for code in (RequestCode.PULL_MESSAGE, RequestCode.LITE_PULL_MESSAGE):
                refused = yield self.client.call(vip, RemotingCommand(code), CALL_SECONDS)
                self.assertEqual(
                    (refused.code, refused.remark), (3, f" request type {int(code)} not supported")
                )
        finally:
            yield service.stopService()
