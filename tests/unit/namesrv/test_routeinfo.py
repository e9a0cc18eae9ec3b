"""The route table, against RocketMQ's rules."""

import json

from twisted.internet.task import Clock
from twisted.logger import Logger, formatEvent
from twisted.trial.unittest import SynchronousTestCase

from hatwisted.namesrv import routeinfo, topicqueues
from hatwisted.namesrv.members import Gone, Master, Member, Source
from hatwisted.namesrv.routeinfo import LEASE, MAX_FILTER_SERVERS, TOLD, RouteTable
from hatwisted.namesrv.routeshares import SHARE
from hatwisted.namesrv.topicqueues import MAX_NAME
from hatwisted.wire.registerbody import at_once
from hatwisted.wire.registration import BadRegistration, DataVersion, QueueData, TopicConfig
from tests.support.growth import Unwalked


def topics(*names, **fields):
    return {name: TopicConfig(topic_name=name, **fields) for name in names}


LONG = MAX_NAME + 1


class RouteCase(SynchronousTestCase):
    def setUp(self):
        self.clock = Clock()
        self.routes = RouteTable(self.clock)

    def register(
        self,
        group="a",
        broker=0,
        address=None,
        names=("T",),
        version=1,
        connection=None,
        host=None,
        **fields,
    ):
        """host: one of each group's own, unless it's named."""
        address = address or f"{group}:{broker}"
        member = Member("C", group, broker, address, f"{address}-ha")
        source = Source(connection or address, host or f"host of {group}")
        steps = self.routes.register(member, topics(*names, **fields), DataVersion(counter=version), source)
        return at_once(steps)

    def listed(self, made):
        """The names in a list's body, which is there."""
        return json.loads(self.successResultOf(made))["topicList"]

    def addresses(self, topic="T"):
        route = self.routes.route(topic)
        return None if route is None else {data.broker_name: data.broker_addrs for data in route.broker_datas}


class TestClusters(RouteCase):
    def test_a_group_is_in_its_masters_cluster_whatever_a_slave_says(self):
        def register(broker, cluster):
            member = Member(cluster, "a", broker, f"a:{broker}", "")
            at_once(
                self.routes.register(member, topics("T"), DataVersion(counter=1), Source(f"a:{broker}", "h"))
            )

        register(1, "Typo")
        self.assertEqual(self.routes.cluster_info().cluster_addr_table, {"Typo": ["a"]})
        for broker, cluster in ((0, "C"), (1, "Typo"), (0, "C"), (1, "Typo")):
            register(broker, cluster)
            self.assertEqual(self.routes.cluster_info().cluster_addr_table, {"C": ["a"]})
        self.routes.closed("a:0")
        register(1, "Typo")
        self.assertEqual(self.listed(self.routes.lists.of_cluster("client", "C")), ["T"])


class TestBounds(RouteCase):
    """Those of all hosts together."""

    def setUp(self):
        super().setUp()
        self.patch(topicqueues, "SHARE", 1)

    def test_B179_no_more_topics_of_groups_than_there_is_room_for(self):
        self.patch(topicqueues, "MAX_ROUTES", 3)
        self.register("a", names=("T", "U"))
        self.register("b", names=("T",))
        self.register("a", names=("T", "U"), version=2)
        refused = self.assertRaises(BadRegistration, self.register, "c", names=("T",))
        self.assertEqual(str(refused), "3 topics of groups are registered, 1 more would exceed 3")
        self.assertIsNone(self.routes.group("c"))
        queues = [QueueData(broker_name="b", perm=6, read_queue_nums=1, write_queue_nums=1)]
        self.assertRaises(BadRegistration, self.routes.register_topic, "V", queues, "h")
        for end in (lambda: self.routes.delete_topic("U"), lambda: self.routes.delete_topic("T", "C")):
            end()
            self.register("c", names=("T",))
            self.routes.closed("c:0")
        self.register("b", names=("T", "U", "V"), version=3)
        self.assertRaises(BadRegistration, self.register, "c", names=("T",))
        self.routes.closed("b:0")
        self.register("c", names=("T", "U", "V"))

    def test_B179_who_fills_the_table_doesnt_empty_it_of_others(self):
        self.patch(topicqueues, "MAX_ROUTES", 3)
        self.register("a", names=("T",))
        self.register("stranger", names=("U", "V"))
        for version in range(2, 8):
            self.clock.advance(30)
            self.register("stranger", names=("U", "V"))
            self.assertRaises(
                BadRegistration, self.register, "a", names=("T", "W"), version=version, connection="new"
            )
            self.routes.closed("a:0")
            self.assertNotIn("new", self.routes.expire())
        self.assertEqual(self.addresses("T"), {"a": {0: "a:0"}})
        self.routes.closed("stranger:0")
        self.register("a", names=("T", "W"), version=7)
        self.assertEqual(self.addresses("W"), {"a": {0: "a:0"}})

    def test_B179_no_more_characters_of_topics_than_an_answer_lists(self):
        self.patch(topicqueues, "MAX_CHARACTERS", 10)
        self.register("a", names=("T" * 4, "U" * 4))
        self.register("b", names=("T" * 4, "U" * 4, "V" * 2))
        refused = self.assertRaises(BadRegistration, self.register, "c", names=("W", "U" * 4))
        self.assertEqual(str(refused), "topics' names have 10 characters, 1 more would exceed 10")
        self.routes.closed("b:0")
        self.register("c", names=("W", "U" * 4))
        self.routes.delete_topic("U" * 4)
        self.register("c", names=("X" * 5,), version=2)

    def test_B179_no_more_brokers_and_no_longer_names(self):
        self.patch(routeinfo, "MAX_BROKERS", 2)
        self.register("a")
        self.register("b")
        self.register("b", version=2)
        self.assertRaises(BadRegistration, self.register, "c")
        self.routes.closed("a:0")
        for name in ({"group": "g" * LONG}, {"address": "h" * LONG}, {"names": ("t" * LONG,)}):
            self.assertRaises(BadRegistration, self.register, **name)
        self.register("g" * MAX_NAME, address="h" * 200, names=("t" * MAX_NAME,))
        member = Member("C", "b", 0, "b:0")
        at_once(
            self.routes.register(member, {}, DataVersion(), Source("b:0", "h"), ["x"] * MAX_FILTER_SERVERS)
        )
        for servers in (["x"] * (MAX_FILTER_SERVERS + 1), ["x" * LONG]):
            steps = self.routes.register(member, {}, DataVersion(), Source("b:0", "h"), servers)
            self.assertRaises(BadRegistration, at_once, steps)


class TestShares(RouteCase):
    """Half of the room is all that a host has."""

    def setUp(self):
        super().setUp()
        self.patch(topicqueues, "MAX_ROUTES", 4 * SHARE)

    def fill(self, host="stranger"):
        for group in "xy":
            self.register(group, names=("T", "U"), host=host)

    def test_B179_a_host_that_fills_its_share_leaves_room_for_others(self):
        self.fill()
        refused = self.assertRaises(BadRegistration, self.register, "z", host="stranger")
        self.assertEqual(
            str(refused),
            "4 topics of groups are registered from stranger, 1 more would exceed 4, its share",
        )
        queues = [QueueData(broker_name="x", perm=6, read_queue_nums=1, write_queue_nums=1)]
        self.assertRaises(BadRegistration, self.routes.register_topic, "V", queues, "stranger")
        self.register("x", names=("T", "U"), version=2, host="stranger")
        self.register("a", names=("T", "U", "V", "W"))
        self.assertEqual(self.addresses("W"), {"a": {0: "a:0"}})

    def test_B179_what_goes_makes_room_in_its_hosts_share(self):
        self.fill()
        for end in (
            lambda: self.routes.delete_topic("U"),
            lambda: self.routes.closed("x:0"),
            lambda: self.routes.unregister("y", 0, "y:0", Source("y:0", "stranger")),
        ):
            end()
            self.register("z", names=("V", "W"), host="stranger")
            self.routes.closed("z:0")
        self.clock.advance(0)
        self.fill()
        self.assertRaises(BadRegistration, self.register, "z", host="stranger")

    def test_B179_a_route_counts_for_the_host_that_registered_it_last(self):
        self.fill()
        self.register("x", names=("T", "U"), version=2, host="other", connection="other")
        self.register("z", names=("T", "U"), host="stranger")
        self.assertRaises(BadRegistration, self.register, "w", host="stranger")
        self.register("w", names=("T", "U"), host="other")
        self.assertRaises(BadRegistration, self.register, "v", host="other")

    def test_B179_a_group_that_comes_back_before_it_is_forgotten_counts_once(self):
        self.patch(topicqueues, "STEP", 1)
        self.fill()
        for _ in range(3):
            self.routes.closed("x:0")
            self.register("x", names=("T", "U"), host="stranger")
        self.assertRaises(BadRegistration, self.register, "z", host="stranger")
        self.clock.advance(0)
        self.assertRaises(BadRegistration, self.register, "z", host="stranger")
        self.routes.closed("x:0")
        self.register("z", names=("T", "U"), host="stranger")

    def test_B179_characters_and_brokers_have_shares_too(self):
        self.patch(topicqueues, "MAX_CHARACTERS", 20)
        self.patch(routeinfo, "MAX_BROKERS", 4)
        self.register("x", names=("T" * 6, "U" * 4), host="stranger")
        refused = self.assertRaises(BadRegistration, self.register, "y", names=("V",), host="stranger")
        self.assertEqual(
            str(refused),
            "names of topics that are registered from stranger have 10 characters, 1 more would exceed 10, "
            "its share",
        )
        self.register("y", names=(), host="stranger")
        refused = self.assertRaises(BadRegistration, self.register, "z", names=(), host="stranger")
        self.assertEqual(str(refused), "2 brokers are registered from stranger, its share")
        self.register("y", names=(), version=2, host="stranger")
        self.register("a", names=("V" * 10,))
        self.assertRaises(BadRegistration, self.register, "a", names=(), version=2, host="stranger")
        self.routes.closed("y:0")
        self.register("z", names=(), host="stranger")

    def test_B179_what_is_being_entered_counts_once(self):
        self.patch(topicqueues, "STEP", 1)
        member = Member("C", "x", 0, "x:0")
        source = Source("x:0", "stranger")
        for version in (1, 2):
            steps = self.routes.register(member, topics("T", "U"), DataVersion(counter=version), source)
            next(steps)
            self.assertRaises(BadRegistration, self.register, "y", names=("V", "W", "X"), host="stranger")
            self.register("y", names=("V", "W"), host="stranger")
            self.routes.closed("y:0")
            at_once(steps)
        steps = self.routes.register(member, topics("V", "W"), DataVersion(counter=3), source)
        next(steps)
        steps.close()
        self.register("y", names=("T",), host="stranger")

    def test_nothing_is_kept_of_a_host_that_has_left(self):
        self.fill()
        self.routes.closed("x:0")
        self.routes.closed("y:0")
        self.clock.advance(0)
        shares = self.routes._topics._shares
        self.assertEqual((shares._hosts, shares._groups, self.routes._of_host), ({}, {}, {}))


class TestManyTopics(RouteCase):
    """They are entered in steps."""

    def setUp(self):
        super().setUp()
        self.patch(topicqueues, "STEP", 2)

    def registering(self, names, group="a", version=1, connection="a:0", host="h"):
        member = Member("C", group, 0, "a:0", "a:0-ha")
        return self.routes.register(
            member, topics(*names), DataVersion(counter=version), Source(connection, host)
        )

    def test_the_version_is_told_once_all_are_entered(self):
        steps = self.registering("TUVWX")
        next(steps)
        self.assertEqual(self.routes.topics(), ["T", "U"])
        self.assertEqual(self.addresses("T"), {"a": {0: "a:0"}})
        self.assertTrue(self.routes.changed("a:0", DataVersion(counter=1)))
        self.assertEqual([*steps], [None, None])
        self.assertEqual(self.routes.topics(), [*"TUVWX"])
        self.assertFalse(self.routes.changed("a:0", DataVersion(counter=1)))

    def test_who_leaves_meanwhile_leaves_nothing(self):
        for leave in (
            lambda: self.routes.closed("a:0"),
            lambda: self.routes.unregister("a", 0, "a:0", Source("a:0", "h")),
            lambda: (self.clock.advance(LEASE + 1), self.routes.expire()),
        ):
            steps = self.registering("TUVWX")
            next(steps)
            leave()
            self.assertRaises(BadRegistration, next, steps)
            self.clock.advance(0)
            self.assertEqual((self.routes.topics(), self.routes.size().routes), ([], 0))

    def test_who_registers_anew_meanwhile_is_registered(self):
        steps = self.registering("TUVWX")
        next(steps)
        self.register("a", address="a:0", names=("Y",), version=2, connection="new")
        self.assertRaises(BadRegistration, next, steps)
        self.routes.closed("a:0")
        self.assertEqual(self.addresses("Y"), {"a": {0: "a:0"}})
        self.assertFalse(self.routes.changed("a:0", DataVersion(counter=2)))

    def test_B179_room_is_kept_for_what_is_being_entered(self):
        self.patch(topicqueues, "MAX_ROUTES", 6)
        self.patch(topicqueues, "SHARE", 1)
        steps = self.registering("TUVWX")
        next(steps)
        self.assertRaises(BadRegistration, self.register, "c", names=("T", "U"))
        steps.close()
        self.register("c", names=("T", "U"))


class TestManyThatLeave(RouteCase):
    """They are forgotten in steps, and no route has them."""

    def setUp(self):
        super().setUp()
        self.patch(topicqueues, "STEP", 2)

    def test_no_route_has_a_topic_of_a_group_that_has_gone(self):
        self.register("a", names="TUVWX")
        self.register("b", names="X")
        self.routes.closed("a:0")
        self.assertEqual(self.routes.size().routes, 4)
        self.assertEqual([self.routes.route(topic) for topic in "TUVW"], [None] * 4)
        self.assertEqual(self.addresses("X"), {"b": {0: "b:0"}})
        self.assertEqual([data.broker_name for data in self.routes.route("X").queue_datas], ["b"])
        self.routes.delete_topic("W")
        self.clock.advance(0)
        self.assertEqual((self.routes.topics(), self.routes.size().routes), (["X"], 1))

    def test_what_has_come_back_stays(self):
        self.register("a", names="TUVWX")
        self.routes.closed("a:0")
        self.register("a", names="XY")
        self.assertIsNone(self.routes.route("W"))
        self.assertEqual(self.addresses("X"), {"a": {0: "a:0"}})
        self.assertEqual(self.routes.permissions("a"), {"6": 2})
        self.assertEqual(self.routes.wipe_write_permission("a"), 2)
        self.clock.advance(0)
        self.assertEqual((self.routes.topics(), self.routes.size().routes), (["X", "Y"], 2))
        self.routes.closed("a:0")
        self.register("a", names="X")
        self.routes.closed("a:0")
        self.clock.advance(0)
        self.assertEqual((self.routes.topics(), self.routes.size().routes), ([], 0))

    def test_of_brokers_that_leave_at_once_ten_have_a_line(self):
        said = []
        self.patch(self.routes, "_log", Logger(observer=lambda event: said.append(formatEvent(event))))
        for index in range(TOLD + 2):
            self.register(f"g{index}", connection="one")
        said.clear()
        self.routes.closed("one")
        self.assertEqual(len(said), TOLD + 1)
        self.assertEqual(said[-1], "2 more brokers are gone: its connection closed")
        self.clock.advance(0)
        self.assertEqual(self.routes.size(), (0, 0, 0, 0, 0))
        self.assertEqual(self.routes.gone[Gone.CLOSED], TOLD + 2)


class TestRegistration(RouteCase):
    def test_B112_queues_come_from_the_master_only_and_the_route_lists_every_id(self):
        self.register(broker=1, names=("FromSlave",))
        self.register(broker=0)
        self.assertIsNone(self.routes.route("FromSlave"))
        route = self.routes.route("T")
        self.assertEqual(route.broker_datas[0].broker_addrs, {0: "a:0", 1: "a:1"})
        self.assertEqual([queues.write_queue_nums for queues in route.queue_datas], [16])

    def test_B110_slave_learns_its_living_master_and_a_master_learns_nobody(self):
        self.assertIsNone(self.register(broker=1))
        self.assertIsNone(self.register(broker=0))
        self.assertEqual(self.register(broker=1), Master("a:0", "a:0-ha"))
        self.routes.closed("a:0")
        self.assertIsNone(self.register(broker=1))

    def test_B01_each_groups_slaves_learn_their_own_master(self):
        self.register("a")
        self.register("b")
        for group in ("b", "a"):
            told = [self.register(group, broker=number) for number in (1, 2)]
            self.assertEqual(told, [Master(f"{group}:0", f"{group}:0-ha")] * 2)

    def test_registration_with_one_new_topic_is_merged(self):
        self.register(names=("T", "U"))
        self.register(names=("New",), version=2)
        self.assertEqual(sorted(self.routes.topics()), ["New", "T", "U"])

    def test_unchanged_version_changes_no_topic(self):
        self.register(perm=6)
        self.register(perm=4, version=1)
        self.assertEqual(self.routes.route("T").queue_datas[0].perm, 6)
        self.register(perm=4, version=2)
        self.assertEqual(self.routes.route("T").queue_datas[0].perm, 4)

    def test_B113_same_address_under_a_new_id_replaces_the_old_entry(self):
        self.register(broker=1, address="h:1")
        self.register(broker=0, address="h:1")
        self.assertEqual(self.addresses(), {"a": {0: "h:1"}})

    def test_B113_a_slave_that_is_made_master_brings_its_topics_though_their_version_is_known(self):
        """Its last master made one that it could tell nobody of but its slave."""
        self.register(broker=0, address="h:0")
        self.register(broker=1, address="h:1", names=("T", "New"), version=2)
        self.register(broker=0, address="h:1", names=("T", "New"), version=2)
        self.assertEqual(self.addresses("New"), {"a": {0: "h:1"}})

    def test_address_that_moves_to_another_group_leaves_the_old_one(self):
        self.register("a", address="h:1")
        self.register("b", address="h:1")
        self.assertEqual(self.addresses(), {"b": {0: "h:1"}})

    def test_two_groups_share_a_topic(self):
        self.register("a")
        self.register("b", write_queue_nums=4)
        self.assertEqual(self.addresses(), {"a": {0: "a:0"}, "b": {0: "b:0"}})
        self.assertEqual(
            {q.broker_name: q.write_queue_nums for q in self.routes.route("T").queue_datas}, {"a": 16, "b": 4}
        )
        self.assertEqual(self.routes.cluster_info().cluster_addr_table, {"C": ["a", "b"]})

    def test_filter_servers_are_in_the_route(self):
        at_once(
            self.routes.register(
                Member("C", "a", 0, "a:0"), topics("T"), DataVersion(), Source(object(), "h"), ["f:1"]
            )
        )
        self.assertEqual(self.routes.route("T").filter_server_table, {"a:0": ["f:1"]})


class TestLeaving(RouteCase):
    def test_a_group_that_goes_is_not_looked_for_in_all_topics(self):
        self.register("a", names=("T", "U"))
        self.register("b", names=("T", "V"))
        table = self.routes._topics
        table._groups = Unwalked(table._groups)
        self.routes.delete_topic("U")
        self.routes.closed("a:0")
        self.assertEqual(len(self.routes._topics), 2)
        self.assertEqual(self.addresses(), {"b": {0: "b:0"}})
        self.routes.closed("b:0")
        self.assertEqual(len(self.routes._topics), 0)

    def test_B113_closed_connection_removes_the_broker_at_once(self):
        self.register("a")
        self.register("b")
        self.routes.closed("a:0")
        self.assertEqual(self.addresses(), {"b": {0: "b:0"}})
        self.routes.closed("b:0")
        self.assertIsNone(self.routes.route("T"))
        self.assertEqual(self.routes.cluster_info().broker_addr_table, {})

    def test_B113_topic_stays_while_any_id_of_the_group_lives(self):
        self.register(broker=0)
        self.register(broker=1)
        self.routes.closed("a:0")
        self.assertEqual(self.addresses(), {"a": {1: "a:1"}})
        self.routes.closed("a:1")
        self.assertEqual(self.routes.topics(), [])

    def test_only_the_connection_of_the_last_registration_counts(self):
        self.register(connection="old")
        self.register(connection="new")
        self.routes.closed("old")
        self.assertEqual(self.addresses(), {"a": {0: "a:0"}})

    def test_B113_silent_broker_goes_after_120_s(self):
        self.register("a", connection="ca")
        self.clock.advance(LEASE / 2)
        self.register("b")
        self.clock.advance(LEASE / 2)
        self.assertEqual(self.routes.expire(), [])
        self.clock.advance(0.001)
        self.assertEqual(self.routes.expire(), ["ca"])
        self.assertEqual(self.addresses(), {"b": {0: "b:0"}})

    def test_unchanged_data_version_renews_the_lease(self):
        self.register(version=7)
        self.clock.advance(LEASE)
        self.assertFalse(self.routes.changed("a:0", DataVersion(counter=7)))
        self.assertTrue(self.routes.changed("a:0", DataVersion(counter=8)))
        self.assertTrue(self.routes.renew("a:0", Source("a:0", "host of a")))
        self.clock.advance(LEASE)
        self.assertEqual(self.routes.expire(), [])
        self.assertEqual(self.routes.version("a:0"), DataVersion(counter=7))
        self.assertTrue(self.routes.changed("unknown", DataVersion()))

    def test_unregistering(self):
        self.register(broker=0)
        self.register(broker=1)
        host = "host of a"
        self.assertTrue(self.routes.unregister("a", 0, "a:0", Source("a:0", host)))
        self.assertEqual(self.addresses(), {"a": {1: "a:1"}})
        self.assertTrue(self.routes.unregister("a", 1, "a:1", Source("another of theirs", host)))
        self.assertTrue(self.routes.unregister("nobody", 0, "x:1", Source("x:1", host)))
        self.assertEqual(self.routes.topics(), [])

    def test_B187_nobody_unregisters_or_renews_a_broker_of_another_host(self):
        said = []
        self.patch(self.routes, "_log", Logger(observer=lambda event: said.append(formatEvent(event))))
        self.register(host="10.0.0.1")
        said.clear()
        for _ in range(2):
            self.assertFalse(self.routes.unregister("a", 0, "a:0", Source("x", "10.0.0.2")))
        self.assertFalse(self.routes.renew("a:0", Source("x", "10.0.0.2")))
        self.assertFalse(self.routes.renew("nobody:0", Source("x", "10.0.0.2")))
        self.assertEqual(self.addresses(), {"a": {0: "a:0"}})
        self.assertEqual(said, ["10.0.0.2 must not unregister a id 0 at a:0, which 10.0.0.1 has registered"])
        self.clock.advance(LEASE)
        self.assertFalse(self.routes.renew("a:0", Source("x", "10.0.0.2")))
        self.clock.advance(1)
        self.assertEqual(self.routes.expire(), ["a:0"])

    def test_B187_a_broker_that_has_moved_unregisters_from_where_it_is(self):
        self.register(host="10.0.0.1", connection="old")
        self.register(host="10.0.0.2", connection="new")
        self.assertFalse(self.routes.unregister("a", 0, "a:0", Source("old", "10.0.0.1")))
        self.assertTrue(self.routes.unregister("a", 0, "a:0", Source("new", "10.0.0.2")))
        self.assertIsNone(self.addresses())

    def test_replaced_master_that_unregisters_does_not_throw_its_successor_out(self):
        self.register(address="old:1")
        self.register(address="new:1")
        self.assertTrue(self.routes.unregister("a", 0, "old:1", Source("old:1", "host of a")))
        self.routes.closed("old:1")
        self.assertEqual(self.addresses(), {"a": {0: "new:1"}})

    def test_master_that_returns_brings_its_topics_although_their_version_is_the_same(self):
        self.register(broker=0)
        self.routes.closed("a:0")
        self.register(broker=0)
        self.assertEqual(self.addresses(), {"a": {0: "a:0"}})


class TestOperators(RouteCase):
    def test_write_permission_of_a_group(self):
        self.register("a", names=("T", "U"), perm=7)
        self.register("b")
        self.assertEqual(self.routes.wipe_write_permission("a"), 2)
        self.assertEqual(
            {q.broker_name: q.perm for q in self.routes.route("T").queue_datas}, {"a": 5, "b": 6}
        )
        self.assertEqual(self.routes.add_write_permission("a"), 2)
        self.assertEqual(self.routes.route("U").queue_datas[0].perm, 6)
        self.assertEqual(self.routes.wipe_write_permission("nobody"), 0)

    def test_deleting_a_topic_everywhere_or_in_a_cluster(self):
        self.register("a", names=("T", "U"))
        at_once(
            self.routes.register(
                Member("D", "d", 0, "d:0"), topics("T", "U"), DataVersion(), Source("d:0", "h")
            )
        )
        self.routes.delete_topic("T", "D")
        self.assertEqual(self.addresses("T"), {"a": {0: "a:0"}})
        self.routes.delete_topic("T", "C")
        self.assertIsNone(self.routes.route("T"))
        self.routes.delete_topic("U")
        self.assertEqual(self.routes.topics(), [])
        self.routes.delete_topic("never")

    def test_lists(self):
        self.register("a", names=("T",), topic_sys_flag=1)
        at_once(
            self.routes.register(
                Member("D", "d", 0, "d:0"), topics("U", topic_sys_flag=2), DataVersion(), Source("d:0", "h")
            )
        )
        self.register("e", names=("V",), topic_sys_flag=3)
        lists = self.routes.lists
        for made, topics_ in (
            (lists.every("client"), ["T", "U", "V"]),
            (lists.of_cluster("client", "D"), ["U"]),
            (lists.of_cluster("client", "C"), ["T", "V"]),
            (lists.of_cluster("client", "nobody's"), []),
            (lists.with_flags("client", 1), ["T", "V"]),
            (lists.with_flags("client", 2), ["U", "V"]),
            (lists.with_flags("client", 2, 1), ["U"]),
        ):
            self.assertEqual(self.listed(made), topics_)
        self.assertEqual(self.clock.getDelayedCalls(), [])
