"""Registration at real name servers of ours, several at a time."""

import json
from functools import partial

import msgspec
from twisted.internet import defer, task
from twisted.internet.protocol import Factory, Protocol
from twisted.trial.unittest import TestCase

from hatwisted.broker.identity import BrokerIdentity
from hatwisted.broker.node.registration import (
    MAX_UNDER_WAY,
    REGISTERING,
    UNREGISTER_TIMEOUT,
    KnownMaster,
    Registration,
    RegistrationOptions,
)
from hatwisted.broker.role import Role
from hatwisted.broker.topic.topicconfig import FirstTopics, TopicConfigTable
from hatwisted.config.schema import BrokerRole, NamesrvConfig
from hatwisted.namesrv.members import Source
from hatwisted.namesrv.service import NameServerPort, NameServerService
from hatwisted.remoting.client import RemotingClient
from hatwisted.remoting.processortable import ProcessorTable
from hatwisted.remoting.serverfactory import RemotingServerFactory
from hatwisted.store.disk.filesystem import PosixFileSystem
from hatwisted.store.disk.worker import InlineWorker
from hatwisted.wire.codes import RequestCode
from hatwisted.wire.registration import TopicConfig
from hatwisted.wire.remoting import RemotingCommand
from tests.support.loopback import loopback


class RegistrationCase(TestCase):
    """Name servers and brokers, and verbs to look at the routes."""

    def setUp(self):
        self.clock = task.Clock()
        self.masters = []

    def name_server(self, port=0):
        service = NameServerService(
            NamesrvConfig(listen_port=port, kv_config_path=self.mktemp()),
            self.clock,
            PosixFileSystem(),
            InlineWorker(),
            NameServerPort(partial(loopback.listen, port, interface="127.0.0.1")),
        )
        service.startService()
        service._factory.serve(service.table)  # handlers that a test changes hold at once
        self.addCleanup(service.stopService)
        return service

    def broker(self, *name_servers, broker_id=0, **kwargs):
        client = RemotingClient(loopback, self.clock)
        self.addCleanup(client.close)
        topics = TopicConfigTable(self.clock, FirstTopics(broker_name="broker-a"))
        identity = BrokerIdentity(
            cluster="DefaultCluster",
            name="broker-a",
            address=f"127.0.0.1:109{broker_id + 1}1",
            ha_address=f"127.0.0.1:109{broker_id + 1}2",
            store_host=bytes(8),
        )
        options = RegistrationOptions(name_servers=name_servers, **kwargs)
        role = Role(BrokerRole.SLAVE if broker_id else BrokerRole.ASYNC_MASTER, broker_id)
        registration = Registration(client, self.clock, topics, identity, role, options)
        registration.on_master(self.masters.append)
        registration.topics = topics
        self.addCleanup(self.stop, registration)
        return registration

    def stop(self, registration):
        stopped = registration.stop()
        self.clock.advance(UNREGISTER_TIMEOUT)
        return stopped

    def addresses(self, service, topic="TBW102"):
        route = service.routes.route(topic)
        return {} if route is None else route.broker_datas[0].broker_addrs

    @defer.inlineCallbacks
    def until(self, happened):
        loop = task.LoopingCall(lambda: happened() and loop.stop())
        yield loop.start(0.002)


class TestRegistering(RegistrationCase):
    @defer.inlineCallbacks
    def test_B109_at_start_at_every_name_server_with_all_topics(self):
        servers = [self.name_server(), self.name_server()]
        registration = self.broker(*(server.address for server in servers))
        registration.start()
        yield registration.settled()
        for server in servers:
            self.assertEqual(self.addresses(server), {0: "127.0.0.1:10911"})
            self.assertEqual(sorted(server.routes.topics()), sorted(registration.topics.names()))

    @defer.inlineCallbacks
    def test_B109_compressed(self):
        server = self.name_server()
        registration = self.broker(server.address, compressed=True)
        registration.start()
        yield registration.settled()
        self.assertEqual(sorted(server.routes.topics()), sorted(registration.topics.names()))

    @defer.inlineCallbacks
    def test_new_topic_is_registered_at_once(self):
        server = self.name_server()
        registration = self.broker(server.address)
        registration.start()
        yield registration.settled()
        registration.topics.for_send("T", "TBW102", 4)
        yield registration.settled()
        self.assertEqual(server.routes.route("T").queue_datas[0].write_queue_nums, 4)

    @defer.inlineCallbacks
    def test_another_permission_is_registered_at_once(self):
        server = self.name_server()
        registration = self.broker(server.address)
        registration.start()
        yield registration.settled()
        before = registration.topics.version
        registration.permit(6)
        self.assertEqual(registration.topics.version, before)
        registration.permit(4)
        yield registration.settled()
        self.assertEqual(server.routes.route("TBW102").queue_datas[0].perm, 4)

    @defer.inlineCallbacks
    def test_many_new_topics_at_once_cost_few_registrations_and_none_is_forgotten(self):
        server = self.name_server()
        registration = self.broker(server.address)
        registration.start()
        yield registration.settled()
        seen = []
        register = server.table.handlers[103]
        server.table.register(
            103, lambda connection, request: seen.append(1) or register(connection, request)
        )
        for number in range(200):
            registration.topics.for_send(f"T{number}", "TBW102", 4)
        yield registration.settled()
        self.assertEqual(len([name for name in server.routes.topics() if name[0] == "T"]), 201)
        self.assertLessEqual(len(seen), MAX_UNDER_WAY + 1)

    @defer.inlineCallbacks
    def test_topics_made_in_a_turn_go_out_with_the_first_and_after_a_rest(self):
        server = self.name_server()
        registration = self.broker(server.address)
        registration.start()
        yield registration.settled()
        made = []
        encode = registration._body._make

        def slow():
            made.append(self.clock.seconds())
            self.clock.rightNow += 0.01
            return encode()

        registration._body._make = slow
        for number in range(50):
            registration.topics.for_send(f"T{number}", "TBW102", 4)
        self.assertEqual(len(made), 1)
        self.clock.advance(0.01 * (1 / REGISTERING - 1) - 0.001)
        self.assertEqual(len(made), 1)
        self.clock.advance(0.001)
        self.assertEqual(len(made), 2)
        yield registration.settled()
        self.assertIsNotNone(server.routes.route("T49"))

    @defer.inlineCallbacks
    def test_a_registration_is_written_once_for_all_name_servers(self):
        servers = [self.name_server() for _ in range(3)]
        registration = self.broker(*(server.address for server in servers))
        made = []
        encode = registration._body._make
        registration._body._make = lambda: made.append(1) or encode()
        registration.start()
        yield registration.settled()
        self.assertEqual(len(made), 1)
        registration.topics.for_send("T", "TBW102", 4)
        yield registration.settled()
        self.assertEqual(len(made), 2)
        self.assertTrue(all(server.routes.route("T") for server in servers))

    @defer.inlineCallbacks
    def test_B109_every_30_s(self):
        server = self.name_server()
        registration = self.broker(server.address)
        registration.start()
        yield registration.settled()
        server.routes.delete_topic("TBW102")
        server.routes.unregister("broker-a", 0, "127.0.0.1:10911", Source(None, "127.0.0.1"))
        self.clock.advance(29.9)
        yield registration.settled()
        self.assertEqual(self.addresses(server), {})
        self.clock.advance(0.1)
        yield registration.settled()
        self.assertEqual(self.addresses(server), {0: "127.0.0.1:10911"})

    def test_B109_period_is_kept_between_10_and_60_s(self):
        periods = [self.broker(period=seconds).period for seconds in (1, 30, 600)]
        self.assertEqual(periods, [10, 30, 60])

    @defer.inlineCallbacks
    def test_B113_orderly_stop_unregisters(self):
        server = self.name_server()
        registration = self.broker(server.address)
        registration.start()
        yield registration.settled()
        yield registration.stop()
        self.assertEqual(server.routes.topics(), [])
        self.assertEqual(
            [call for call in self.clock.getDelayedCalls() if call.func == registration.register_now], []
        )

    @defer.inlineCallbacks
    def test_name_servers_that_differ_about_ordered_topics_get_no_more_registrations_for_it(self):
        servers = [self.name_server(), self.name_server()]
        for server, topic in zip(servers, ("T", "U"), strict=True):
            server.settings.put("ORDER_TOPIC_CONFIG", topic, "broker-a:4")
        registration = self.broker(*(server.address for server in servers))
        for topic in ("T", "U"):
            registration.topics.put(TopicConfig(topic_name=topic))
        before = registration.topics.version.counter
        registration.start()
        settled = registration.settled()
        yield self.until(lambda: settled.called or registration.topics.version.counter > before + 20)
        self.assertLess(registration.topics.version.counter, before + 5)
        self.assertTrue(registration.topics.get("T").order)
        self.assertFalse(registration.topics.get("U").order)

    @defer.inlineCallbacks
    def test_ordered_topics_come_with_the_answer(self):
        server = self.name_server()
        server.settings.put("ORDER_TOPIC_CONFIG", "T", "broker-a:4")
        registration = self.broker(server.address)
        registration.topics.put(TopicConfig(topic_name="T"))
        registration.start()
        yield registration.settled()
        yield registration.settled()
        self.assertTrue(registration.topics.get("T").order)

    @defer.inlineCallbacks
    def test_a_slaves_topics_are_ordered_by_its_masters_table_alone(self):
        """Changed here, it would be another version than the master's, and be copied again and again."""
        server = self.name_server()
        server.settings.put("ORDER_TOPIC_CONFIG", "T", "broker-a:4")
        registration = self.broker(server.address, broker_id=1)
        registration.topics.put(TopicConfig(topic_name="T"))
        version = registration.topics.version
        registration.start()
        yield registration.settled()
        self.assertEqual(registration.registered_at, 1)
        self.assertEqual((registration.topics.version, registration.topics.get("T").order), (version, False))


class TestAskingFirst(RegistrationCase):
    """forceRegister=false."""

    def counted(self, server):
        """Codes that the name server is asked from now on."""
        asked = []
        for code in (103, 322):
            former = server.table.handlers[code]
            server.table.register(
                code, lambda *both, code=code, former=former: asked.append(code) or former(*both)
            )
        return asked

    @defer.inlineCallbacks
    def started(self, server, **kwargs):
        asked = self.counted(server)
        registration = self.broker(server.address, always=False, **kwargs)
        registration.start()
        yield registration.settled()
        return registration, asked

    @defer.inlineCallbacks
    def test_B109_an_unchanged_table_is_only_asked_about_and_stays_alive(self):
        server = self.name_server()
        registration, asked = yield self.started(server)
        self.assertEqual(asked, [103])
        for _ in range(10):
            self.clock.advance(30)
            yield registration.settled()
        self.assertEqual(asked, [103] + [322] * 10)
        self.assertEqual(self.addresses(server), {0: "127.0.0.1:10911"})

    @defer.inlineCallbacks
    def test_what_the_name_server_has_not_got_is_registered(self):
        server = self.name_server()
        registration, asked = yield self.started(server)
        registration.topics.put(TopicConfig(topic_name="T"))
        yield registration.settled()
        self.assertEqual(asked, [103, 103])
        server.routes.unregister("broker-a", 0, "127.0.0.1:10911", Source(None, "127.0.0.1"))
        self.clock.advance(30)
        yield registration.settled()
        self.assertEqual(asked, [103, 103, 322, 103])
        self.assertEqual(self.addresses(server), {0: "127.0.0.1:10911"})

    @defer.inlineCallbacks
    def test_a_name_server_that_can_not_be_asked_is_registered_with(self):
        server = self.name_server()
        del server.table.handlers[322]
        server.table.register(322, lambda connection, request: None)
        registration, asked = yield self.started(server)
        self.clock.advance(30)
        self.clock.advance(6)
        yield registration.settled()
        self.assertEqual(asked, [103, 322, 103])

    @defer.inlineCallbacks
    def test_a_slave_registers_always_to_hear_of_its_master(self):
        server = self.name_server()
        registration, asked = yield self.started(server, broker_id=1)
        self.clock.advance(30)
        yield registration.settled()
        self.assertEqual(asked, [103, 103])


class TestFailures(RegistrationCase):
    def silent(self):
        """A name server that accepts and says nothing."""
        port = loopback.listenTCP(0, Factory.forProtocol(Protocol), interface="127.0.0.1")
        self.addCleanup(port.stopListening)
        return f"127.0.0.1:{port.getHost().port}"

    def black_hole(self, host):
        """An address where handshakes get no answer."""
        loopback.network.silent_hosts.add(host)
        return f"{host}:9876"

    @defer.inlineCallbacks
    def test_a_black_hole_delays_neither_the_living_nor_the_stop_for_long(self):
        first, last = self.name_server(), self.name_server()
        registration = self.broker(
            first.address, self.black_hole("10.0.0.1"), self.black_hole("10.0.0.2"), last.address
        )
        registration.start()
        yield self.until(lambda: self.addresses(first) and self.addresses(last))
        registration.topics.for_send("T", "TBW102", 4)
        yield self.until(lambda: self.addresses(first, "T") and self.addresses(last, "T"))
        self.clock.advance(6)
        yield registration.settled()
        for _ in range(3):
            before = self.clock.seconds()
            first.routes.unregister("broker-a", 0, "127.0.0.1:10911", Source(None, "127.0.0.1"))
            self.clock.advance(30)
            yield self.until(lambda: self.addresses(first))
            self.assertEqual(self.clock.seconds(), before + 30)
        stopped = registration.stop()
        yield self.until(lambda: not first.routes.topics() and not last.routes.topics())
        self.clock.advance(UNREGISTER_TIMEOUT)
        yield stopped

    @defer.inlineCallbacks
    def test_dead_name_servers_do_not_delay_the_living(self):
        server = self.name_server()
        dead = self.name_server()
        gone = dead.address
        yield dead.stopService()
        registration = self.broker(gone, self.silent(), server.address)
        registration.start()
        yield self.until(lambda: self.addresses(server))
        registration.topics.for_send("T", "TBW102", 4)
        yield self.until(lambda: self.addresses(server, "T"))
        self.clock.advance(6)
        yield registration.settled()

    @defer.inlineCallbacks
    def test_name_server_that_comes_late_is_found_within_the_backoff(self):
        port = loopback.network.free_port()
        registration = self.broker(f"127.0.0.1:{port}")
        registration.start()
        yield registration.settled()
        server = self.name_server(port)
        self.clock.advance(1)
        yield registration.settled()
        self.assertEqual(self.addresses(server), {0: "127.0.0.1:10911"})

    @defer.inlineCallbacks
    def test_one_that_was_away_for_a_day_is_told_as_soon_as_any(self):
        """Its pauses doubled until no float held them, after 1,024 failures in a row: 8.5 hours."""
        port = loopback.network.free_port()
        registration = self.broker(f"127.0.0.1:{port}", period=60)
        registration.start()
        for _ in range(1440):
            yield registration.settled()
            self.clock.advance(60)
        yield registration.settled()
        self.assertEqual(self.flushLoggedErrors(), [])
        server = self.name_server(port)
        self.clock.advance(60)
        yield registration.settled()
        self.assertEqual(self.addresses(server), {0: "127.0.0.1:10911"})

    @defer.inlineCallbacks
    def test_restarted_name_server_is_told_again_soon(self):
        port = loopback.network.free_port()
        server = self.name_server(port)
        registration = self.broker(server.address)
        registration.start()
        yield registration.settled()
        lost = defer.Deferred()
        registration._client.on_lost(lambda _: lost.callback(None))
        yield server.stopService()
        yield lost
        server = self.name_server(port)
        self.clock.advance(1)
        yield registration.settled()
        self.assertEqual(self.addresses(server), {0: "127.0.0.1:10911"})

    @defer.inlineCallbacks
    def test_refusing_name_server_is_tried_with_growing_pauses(self):
        asked = []
        table = ProcessorTable()
        table.register(106, lambda *_: None)
        factory = RemotingServerFactory(table, self.clock)
        port = loopback.listenTCP(0, factory, interface="127.0.0.1")
        self.addCleanup(port.stopListening)
        registration = self.broker(f"127.0.0.1:{port.getHost().port}", period=60)
        request = registration.request
        registration.request = lambda: asked.append(self.clock.seconds()) or request()
        registration.start()
        yield registration.settled()
        for _ in range(59):
            self.clock.advance(1)
            yield registration.settled()
        self.assertEqual(asked, [0, 1, 3, 7, 15, 31])
        for connection in list(factory.connections):
            connection.abort()

    @defer.inlineCallbacks
    def test_stopping_with_a_silent_name_server_takes_three_seconds(self):
        registration = self.broker(self.silent())
        registration.start()
        stopped = registration.stop()
        self.clock.advance(2.9)
        self.assertNoResult(stopped)
        self.clock.advance(0.1)
        yield stopped
        self.clock.advance(10)
        yield registration.settled()


class TestVersions(RegistrationCase):
    @defer.inlineCallbacks
    def test_B170_which_topics_of_a_master_a_name_server_has(self):
        server = self.name_server()
        master, slave = self.broker(server.address), self.broker(server.address, broker_id=1)
        self.assertIsNone((yield slave.version_of("127.0.0.1:10911")), "not registered yet")
        for each in (master, slave):
            each.start()
            yield each.settled()
        self.assertEqual((yield slave.version_of("127.0.0.1:10911")), master.topics.version)
        master.topics.put(TopicConfig(topic_name="Later"))
        yield master.settled()
        self.assertEqual((yield slave.version_of("127.0.0.1:10911")), master.topics.version)
        self.assertIsNone((yield slave.version_of("127.0.0.1:9")), "unknown there")

    @defer.inlineCallbacks
    def test_B170_the_question_does_not_renew_the_masters_lease(self):
        server = self.name_server()
        master, slave = self.broker(server.address), self.broker(server.address, broker_id=1)
        for each in (master, slave):
            each.start()
            yield each.settled()
        renewed = []
        self.patch(server.routes, "renew", renewed.append)
        yield slave.version_of("127.0.0.1:10911")
        self.assertEqual(renewed, [])


class TestMaster(RegistrationCase):
    @defer.inlineCallbacks
    def test_B111_slave_first_then_master(self):
        servers = [self.name_server(), self.name_server()]
        addresses = [server.address for server in servers]
        slave = self.broker(*addresses, broker_id=1)
        slave.start()
        yield slave.settled()
        self.assertEqual(self.masters, [])
        master = self.broker(*addresses)
        master.start()
        yield master.settled()
        self.clock.advance(30)
        yield slave.settled()
        self.assertEqual(self.masters, [KnownMaster("127.0.0.1:10911", "127.0.0.1:10912")])

    @defer.inlineCallbacks
    def test_B110_B67_a_changed_ha_address_is_followed_at_the_next_registration(self):
        server = self.name_server()
        master, slave = self.broker(server.address), self.broker(server.address, broker_id=1)
        for registration in (master, slave):
            registration.start()
            yield registration.settled()
        moved = msgspec.structs.replace(master._identity, ha_address="10.0.0.9:10912")
        master._identity = moved
        for _ in range(2):
            self.clock.advance(30)
            for registration in (master, slave):
                yield registration.settled()
        self.assertEqual(
            self.masters,
            [KnownMaster("127.0.0.1:10911", each) for each in ("127.0.0.1:10912", "10.0.0.9:10912")],
        )

    @defer.inlineCallbacks
    def test_B67_the_last_word_of_a_dead_name_server_doesnt_outweigh_a_living_ones(self):
        dying, living = self.name_server(), self.name_server()
        addresses = dying.address, living.address
        master, slave = self.broker(*addresses), self.broker(*addresses, broker_id=1)
        for registration in (master, slave):
            registration.start()
            yield registration.settled()
        self.assertEqual(self.masters, [KnownMaster("127.0.0.1:10911", "127.0.0.1:10912")])
        yield dying.stopService()
        yield master.stop()
        yield self.until(lambda: not self.addresses(living).get(0))
        moved = self.broker(living.address)
        moved._identity = msgspec.structs.replace(
            moved._identity, address="10.0.0.9:10911", ha_address="10.0.0.9:10912"
        )
        moved.start()
        yield moved.settled()
        for _ in range(2):  # the dead one is found out, and the living one asked again
            slave.register_now()
            yield slave.settled()
        self.assertEqual(self.masters[-1], KnownMaster("10.0.0.9:10911", "10.0.0.9:10912"))

    @defer.inlineCallbacks
    def test_gone_master_is_reported_and_its_ha_address_kept(self):
        server = self.name_server()
        master, slave = self.broker(server.address), self.broker(server.address, broker_id=1)
        master.start()
        yield master.settled()
        slave.start()
        yield slave.settled()
        yield master.stop()
        self.clock.advance(30)
        yield slave.settled()
        self.assertEqual(self.masters[-1], KnownMaster(None, "127.0.0.1:10912"))

    @defer.inlineCallbacks
    def test_one_name_server_that_knows_the_master_is_enough(self):
        knows, ignorant = self.name_server(), self.name_server()
        master = self.broker(knows.address)
        master.start()
        yield master.settled()
        slave = self.broker(ignorant.address, knows.address, broker_id=1)
        slave.start()
        yield slave.settled()
        self.assertEqual(self.masters, [KnownMaster("127.0.0.1:10911", "127.0.0.1:10912")])

    @defer.inlineCallbacks
    def test_B112_slave_is_in_the_route(self):
        server = self.name_server()
        for broker_id in (0, 1):
            registration = self.broker(server.address, broker_id=broker_id)
            registration.start()
            yield registration.settled()
        client = RemotingClient(loopback, self.clock)
        self.addCleanup(client.close)
        request = RemotingCommand(RequestCode.GET_ROUTEINFO_BY_TOPIC, ext={"topic": "TBW102"})
        answer = yield client.ask(server.address, request, 5)
        route = json.loads(answer.body)
        self.assertEqual(
            route["brokerDatas"][0]["brokerAddrs"], {"0": "127.0.0.1:10911", "1": "127.0.0.1:10921"}
        )
