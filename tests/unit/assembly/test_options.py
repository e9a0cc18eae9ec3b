"""What the rooms get to see of the configuration."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from hatwisted.assembly.options import pull_options, sync_options
from hatwisted.broker.node.topicversions import no_name_server
from hatwisted.broker.role import Role
from hatwisted.config.schema import BrokerConfig, BrokerRole

ROLE = Role(BrokerRole.ASYNC_MASTER, 0)


class PullOptionsTests(SynchronousTestCase):
    def test_B119_a_reader_is_slow_from_40_percent_of_the_memory_on(self) -> None:
        self.assertEqual(pull_options(BrokerConfig(), 10_000, ROLE).slow_distance, 4000)
        config = BrokerConfig(access_message_in_memory_max_ratio=25)
        self.assertEqual(pull_options(config, 10_000, ROLE).slow_distance, 2500)

    def test_B119_slaves_are_suggested_only_where_that_is_set(self) -> None:
        self.assertFalse(pull_options(BrokerConfig(), 1, ROLE).slave_read_enable)
        self.assertTrue(pull_options(BrokerConfig(slave_read_enable=True), 1, ROLE).slave_read_enable)


class SyncOptionsTests(SynchronousTestCase):
    def test_B98_a_slave_asks_first_after_3_s_and_then_every_10_s_by_default(self) -> None:
        for config, wanted in (
            (BrokerConfig(), (3.0, 10.0)),
            (BrokerConfig(slave_sync_first_delay=500, slave_sync_interval=2500), (0.5, 2.5)),
        ):
            options = sync_options(config, ROLE, no_name_server)
            self.assertEqual((options.first_delay, options.interval), wanted)
