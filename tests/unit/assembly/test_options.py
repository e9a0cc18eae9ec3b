"""What the rooms get to see of the configuration."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from hatwisted.assembly.options import pull_options
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
