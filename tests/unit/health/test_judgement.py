"""What is found wrong with a cluster, from the answers of its brokers, RocketMQ's among them."""

import json

from twisted.trial.unittest import SynchronousTestCase

from hatwisted.health import javatext
from hatwisted.health.figures import Answers, GroupProgress, Look, View, broker_figures
from hatwisted.health.judgement import FAR_BEHIND, GROUP_BEHIND, Weight, findings
from hatwisted.health.words import Mood, state_of
from tests.support.golden import GOLDEN

NAMES = "10.0.0.1:9876"
GB = 1 << 30


def runtime_of_java():
    """Of a RocketMQ 4.9.7 master, as captured."""
    answers = json.loads((GOLDEN / "remoting-answers.json").read_text())
    return json.loads(answers["GET_BROKER_RUNTIME_INFO"]["body"])["table"]


def broker(number, end, *, at=100.0, begin=0, role=None, config=None, **said):
    """One broker's figures. end: of its log; None: it doesn't answer."""
    if end is None:
        return broker_figures("a", number, f"10.0.0.{number}:10911", Answers(at=at, error="no answer"))
    role = role or ("SLAVE" if number else "ASYNC_MASTER")
    ha = said.pop("ha", None)
    runtime = {"commitLogMinOffset": str(begin), "commitLogMaxOffset": str(end), **said}
    answers = Answers(at=at, runtime=runtime, config={"brokerRole": role} | (config or {}), ha=ha)
    return broker_figures("a", number, f"10.0.0.{number}:10911", answers)


def look(*brokers, at=100.0, names=None, members=None, groups=()):
    return Look(
        at=at,
        name_servers=names or {NAMES: None},
        members=members or {NAMES: frozenset(f"a/{each.id}" for each in brokers)},
        brokers=list(brokers),
        groups=list(groups),
    )


def names(before, now=None):
    return [each.name for each in findings(View(before=before, now=now or before))]


class JavaTextTests(SynchronousTestCase):
    def test_what_rocketmq_writes_for_people(self):
        self.assertEqual(javatext.size("0 B"), 0)
        self.assertEqual(javatext.size("1.5 KiB"), 1536)
        self.assertEqual(javatext.capacity("Total : 2.0 GiB, Free : 512.0 MiB."), (2 * GB, GB // 2))
        self.assertEqual(javatext.runtime("[ 1 days, 2 hours, 3 minutes, 4 seconds ]"), 93784)
        self.assertEqual(javatext.rate("12.5 3 1"), 12.5)
        self.assertEqual(javatext.ratio("0.13"), 0.13)

    def test_numbers_that_no_java_has_are_none(self):
        huge = "9" * 400
        self.assertIsNone(javatext.whole(huge))
        self.assertIsNone(javatext.size(f"{huge} KiB"))
        self.assertIsNone(javatext.capacity(f"Total : {huge} GiB, Free : 1 GiB."))
        self.assertIsNone(javatext.runtime(f"[ {huge} days, 2 hours, 3 minutes, 4 seconds ]"))

    def test_a_broker_that_answers_nonsense_hides_no_other(self):
        good = broker(1, 5)
        for ha in (
            {"haClientRuntimeInfo": "x", "haConnectionInfo": 5},
            {"haClientRuntimeInfo": [1], "haConnectionInfo": ["x", 5, {"lastReadTimestamp": "9" * 400}]},
        ):
            for number in (0, 2):
                odd = broker(number, 5, ha=ha, bootTimestamp="9" * 400, putTps="nan", runtime="x")
                view = View(before=look(good, odd), now=look(good, odd, at=101.0))
                findings(view)
                self.assertEqual([each.id for each in view.now.brokers], [1, number])
                state_of(view, odd)

    def test_what_cant_be_read_is_none(self):
        for read in (javatext.size, javatext.capacity, javatext.runtime, javatext.rate, javatext.whole):
            self.assertIsNone(read("null"), read)
            self.assertIsNone(read(None), read)
            self.assertIsNone(read(""), read)
        self.assertIsNone(javatext.ratio("-1.0"), "RocketMQ's word for a folder that isn't there")


class FiguresTests(SynchronousTestCase):
    def test_a_rocketmq_master_without_907(self):
        found = broker_figures("a", 0, "h:1", Answers(at=1795221228.0, runtime=runtime_of_java()))
        self.assertEqual((found.log_begin, found.log_end, found.version), (0, 111713, "V4_9_7"))
        self.assertEqual((found.disk_used, found.flush_lag, found.dispatch_lag), (0.13, 0, 0))
        self.assertEqual(found.disk_free, int(79.4 * GB))
        self.assertEqual(found.clock, 1795221228.83)
        self.assertIsNone(found.slaves)
        self.assertIsNone(found.role)

    def test_a_slave_of_ours_tells_its_link(self):
        client = {"state": "store full", "problem": "no room", "lastReadTimestamp": 99_000}
        found = broker(1, 5, ha={"haClientRuntimeInfo": client})
        self.assertEqual((found.state, found.problem, found.last_heard), ("store full", "no room", 99.0))

    def test_nothing_at_all_is_no_error(self):
        found = broker_figures("a", 0, "h:1", Answers(at=0.0))
        self.assertIsNone(found.log_end)
        self.assertEqual(names(look(found)), ["no-copy"])


class LagTests(SynchronousTestCase):
    def lag(self, before, now):
        view = View(before=before, now=now)
        return view.lag(view.broker(now, "a", 1))

    def test_of_a_slave_that_catches_up(self):
        now = look(broker(0, 10_000, at=110.0), broker(1, 4_000, at=110.0))
        found = self.lag(look(broker(0, 9_000), broker(1, 1_000)), now)
        self.assertEqual((found.bytes, found.rate), (6_000, 300.0))
        self.assertEqual(found.to_level, 6_000 / (300 - 100))
        self.assertEqual(found.seconds, 60.0, "what the master takes for 6000 bytes at 100 a second")

    def test_of_one_that_never_will(self):
        now = look(broker(0, 10_000, at=110.0), broker(1, 1_100, at=110.0))
        self.assertIsNone(self.lag(look(broker(0, 5_000), broker(1, 1_000)), now).to_level)

    def test_of_one_that_is_level(self):
        both = look(broker(0, 9_000), broker(1, 9_000))
        found = self.lag(both, both)
        self.assertEqual((found.bytes, found.seconds, found.to_level), (0, 0.0, 0.0))

    def test_of_one_a_moment_behind(self):
        now = look(broker(0, 2_000, at=110.0), broker(1, 1_800, at=110.0))
        self.assertEqual(self.lag(look(broker(0, 1_000), broker(1, 1_000)), now).seconds, 2.0)

    def test_without_a_master_there_is_none(self):
        alone = look(broker(1, 5))
        self.assertIsNone(self.lag(alone, alone))


class FindingsTests(SynchronousTestCase):
    def test_a_pair_that_is_level_is_well(self):
        self.assertEqual(names(look(broker(0, 9), broker(1, 9))), [])

    def test_a_group_without_master(self):
        self.assertEqual(names(look(broker(1, 9))), ["no-master"])

    def test_a_master_alone_is_a_note_unless_it_waits_for_a_slave(self):
        alone = View(before=look(broker(0, 9)), now=look(broker(0, 9)))
        (note,) = findings(alone)
        self.assertIs(note.weight, Weight.NOTE)
        self.assertEqual(note.advice, f"hatwisted attach {NAMES} a")
        self.assertEqual(names(look(broker(0, 9, role="SYNC_MASTER"))), ["sync-master-alone"])

    def test_whether_a_master_is_alone_is_its_own_word_where_it_has_one(self):
        linked = {"haConnectionInfo": [{"addr": "10.0.0.9:1", "lastReadTimestamp": 99_000}]}
        self.assertEqual(names(look(broker(0, 9, ha=linked))), [], "a slave that isn't registered")
        found = names(look(broker(0, 9, role="SYNC_MASTER", ha={"haConnectionInfo": []}), broker(1, 9)))
        self.assertEqual(found, ["sync-master-alone"])

    def test_a_slave_that_stands_still(self):
        now = look(broker(0, 9_000, at=110.0), broker(1, 1_000, at=110.0))
        self.assertEqual(names(look(broker(0, 9_000), broker(1, 1_000)), now), ["slave-stands-still"])

    def test_why_a_slave_stands_still_is_said_once(self):
        for state, problem, name in (
            ("config mismatch", "mappedFileSizeCommitLog is 65536 here", "slave-problem"),
            ("disconnected", "", "slave-not-linked"),
        ):
            ha = {"haClientRuntimeInfo": {"state": state, "problem": problem}}
            now = look(broker(0, 9_000, at=110.0), broker(1, 1_000, at=110.0, ha=ha))
            self.assertEqual(names(look(broker(0, 9_000), broker(1, 1_000, ha=ha)), now), [name])

    def test_a_slave_that_moves_isnt_one_unless_it_is_far_behind(self):
        now = look(broker(0, 9_000, at=110.0), broker(1, 2_000, at=110.0))
        self.assertEqual(names(look(broker(0, 9_000), broker(1, 1_000)), now), [])
        end = FAR_BEHIND + 9_000
        now = look(broker(0, end, at=110.0), broker(1, 2_000, at=110.0))
        self.assertEqual(names(look(broker(0, end), broker(1, 1_000)), now), ["slave-far-behind"])

    def test_a_slave_ahead_of_its_master(self):
        self.assertEqual(names(look(broker(0, 9), broker(1, 10))), ["slave-ahead"])

    def test_a_slave_that_lacks_the_begin_is_a_note(self):
        (found,) = findings(View(before=look(), now=look(broker(0, 9), broker(1, 9, begin=4))))
        self.assertEqual((found.name, found.weight), ("slave-lacks-begin", Weight.NOTE))

    def test_a_slave_says_what_is_wrong_with_its_link(self):
        ha = {"haClientRuntimeInfo": {"state": "offset mismatch", "problem": "frame at 7, expected 5"}}
        (found,) = findings(View(before=look(), now=look(broker(0, 9), broker(1, 9, ha=ha))))
        self.assertEqual((found.name, found.what), ("slave-problem", "frame at 7, expected 5"))
        ha = {"haClientRuntimeInfo": {"state": "disconnected", "problem": ""}}
        self.assertEqual(names(look(broker(0, 9), broker(1, 9, ha=ha))), ["slave-not-linked"])

    def test_who_doesnt_answer(self):
        self.assertEqual(names(look(broker(0, 9), broker(1, None))), ["broker-silent"])
        silent = look(broker(0, 9), broker(1, 9), names={NAMES: None, "10.0.0.2:9876": "refused"})
        self.assertEqual(names(silent), ["name-server-silent"])

    def test_name_servers_that_differ(self):
        members = {NAMES: frozenset(("a/0", "a/1")), "10.0.0.2:9876": frozenset(("a/0",))}
        pair = look(broker(0, 9), broker(1, 9), names=dict.fromkeys(members), members=members)
        self.assertEqual(names(pair), ["name-servers-differ"])

    def test_no_broker(self):
        self.assertEqual(names(look()), ["no-broker"])

    def test_disks(self):
        def of(used, **config):
            return names(look(broker(0, 9, commitLogDiskRatio=used, config=config), broker(1, 9)))

        self.assertEqual(of("0.74"), [])
        self.assertEqual(of("0.75"), ["disk-filling"])
        self.assertEqual(of("0.60", diskMaxUsedSpaceRatio="60"), ["disk-filling"])
        self.assertEqual(of("0.91"), ["disk-full"])

    def test_what_lags_inside_a_broker(self):
        def of(**said):
            return names(look(broker(0, 9, **said), broker(1, 9)))

        self.assertEqual(of(remainHowManyDataToFlush="1.0 GiB"), ["flush-behind"])
        self.assertEqual(of(dispatchBehindBytes=str(GB)), ["dispatch-behind"])
        self.assertEqual(of(haAuditDifferences="2"), ["audit-differs"])

    def test_sends_that_miss_the_slave_are_counted_between_looks(self):
        def pair(count):
            said = {"putMessageFlushSlaveTimeoutTimes": count, "putMessageSlaveNotAvailableTimes": "0"}
            return look(broker(0, 9, role="SYNC_MASTER", **said), broker(1, 9))

        self.assertEqual(names(pair("5"), pair("5")), [])
        self.assertEqual(names(pair("5"), pair("7")), ["puts-miss-slave"])

    def test_a_clock_that_is_off(self):
        def pair(boot):
            said = {"bootTimestamp": boot, "runtime": "[ 0 days, 0 hours, 0 minutes, 10 seconds ]"}
            return look(broker(0, 9, **said), broker(1, 9))

        self.assertEqual(names(pair("90000")), [])
        self.assertEqual(names(pair("60000")), ["clock-off"])

    def test_versions_and_permissions(self):
        pair = look(broker(0, 9, brokerVersionDesc="V5_3_3"), broker(1, 9, brokerVersionDesc="V4_9_7"))
        self.assertEqual(names(pair), ["versions-differ"])
        ours = [{"brokerVersionDesc": "V4_9_7", "hatwistedVersion": each} for each in ("0.1.0", "0.2.0")]
        below_rocketmq = look(broker(0, 9, brokerVersionDesc="V5_3_3"), broker(1, 9, **ours[0]))
        self.assertEqual(names(below_rocketmq), [])
        pair = look(broker(0, 9, **ours[0]), broker(1, 9, **ours[1]))
        (found,) = findings(View(before=pair, now=pair))
        self.assertEqual(found.what, "runs hatwisted 0.1.0 and hatwisted 0.2.0")
        pair = look(broker(0, 9, config={"brokerPermission": "4"}), broker(1, 9))
        self.assertEqual(names(pair), ["not-writable"])

    def test_consumer_groups(self):
        def of(behind, members):
            group = GroupProgress(name="g", behind=behind, members=members)
            return findings(View(before=look(), now=look(broker(0, 9), broker(1, 9), groups=[group])))

        self.assertEqual(of(GROUP_BEHIND - 1, 0), [])
        (found,) = of(GROUP_BEHIND, 0)
        self.assertEqual(found.advice, "start its consumers")
        (found,) = of(GROUP_BEHIND, 2)
        self.assertIn("hatwisted group", found.advice)

    def test_problems_come_first(self):
        pair = look(broker(0, 9, brokerVersionDesc="V5_3_3"), broker(1, 10, brokerVersionDesc="V4_9_7"))
        self.assertEqual(names(pair), ["slave-ahead", "versions-differ"])


class WordsTests(SynchronousTestCase):
    def test_a_sync_master_without_slaves_is_in_no_good_mood(self):
        for role, mood in (("SYNC_MASTER", Mood.BAD), ("ASYNC_MASTER", Mood.GOOD)):
            seen = look(broker(0, 100, role=role, ha={"haConnectionInfo": []}))
            self.assertEqual(
                state_of(View(before=seen, now=seen), seen.brokers[0]), ("up, 0 slaves linked", mood)
            )
