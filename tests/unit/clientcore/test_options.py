"""The public API's keywords and errors at run time; tests/typed has what a type checker makes of them."""

import dataclasses
import typing
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

import hatwisted.aio
import hatwisted.blocking
import hatwisted.client
from hatwisted.blocking.settings import ClusterSettings
from hatwisted.clientcore import errors
from hatwisted.clientcore.calls import MAX_CALLS
from hatwisted.clientcore.clusterlink import ClusterLink
from hatwisted.clientcore.message import MAX_GROUP_LENGTH
from hatwisted.clientcore.options import (
    MAX_BATCH,
    MAX_IN_FLIGHT,
    MAX_WAITING_BYTES,
    PREFETCH_MESSAGES,
    SEND_TIMEOUT,
    ConsumerKeywords,
    ConsumerOptions,
    ProducerKeywords,
    ProducerOptions,
)
from hatwisted.config.schema import BrokerConfig
from hatwisted.wire.layout import MAX_MESSAGE_SIZE
from tests.support.scripteddriver import ScriptedDriver


class PublicApiTests(SynchronousTestCase):
    def test_keywords_and_options_are_the_same(self) -> None:
        for keywords, options in ((ProducerKeywords, ProducerOptions), (ConsumerKeywords, ConsumerOptions)):
            fields = typing.get_type_hints(options)
            self.assertEqual(typing.get_type_hints(keywords), fields)
            self.assertEqual([field.name for field in dataclasses.fields(options)], list(fields))

    def test_every_error_is_exported_and_a_client_error(self) -> None:
        kinds = {
            name
            for name, each in vars(errors).items()
            if isinstance(each, type) and issubclass(each, Exception) and each.__module__ == errors.__name__
        }
        for module in (hatwisted.client, hatwisted.aio, hatwisted.blocking):
            self.assertEqual(kinds - set(module.__all__), set())
            for name in kinds:
                self.assertTrue(issubclass(getattr(module, name), module.ClientError), name)

    def test_a_group_is_named_as_rocketmqs_clients_allow(self) -> None:
        link = ClusterLink(ScriptedDriver({}, lambda address, request: request), "10.0.0.9:9876", "me")
        for wrong in ("", "a b", "a.b", "G" * (MAX_GROUP_LENGTH + 1)):
            for make in (
                lambda group: link.producer(group, ProducerOptions()),
                lambda group: link.transaction_producer(group, lambda message: None, ProducerOptions()),
                lambda group: link.consumer(group, {"T": "*"}, None, ConsumerOptions()),
                lambda group: ClusterSettings(name_servers=("10.0.0.9:9876",), group=group),
            ):
                error = self.assertRaises(errors.BadSetting, make, wrong)
                self.assertIn("1 to 255 letters, digits and any of %|_- are allowed", str(error))

    def test_what_a_producer_has_under_way_is_less_than_a_channel_takes(self) -> None:
        options = ProducerOptions()
        self.assertEqual(
            (options.max_in_flight, options.max_waiting_bytes, options.timeout),
            (MAX_IN_FLIGHT, MAX_WAITING_BYTES, SEND_TIMEOUT),
        )
        self.assertLess(options.max_in_flight, MAX_CALLS)
        self.assertEqual(options.max_message_size, MAX_MESSAGE_SIZE)
        self.assertEqual(BrokerConfig().max_message_size, MAX_MESSAGE_SIZE)
        self.assertGreaterEqual(options.max_waiting_bytes, options.max_message_size)

    def test_a_consumers_batch_is_no_longer_than_a_queues_buffer(self) -> None:
        for given in (1, MAX_BATCH):
            self.assertEqual(ConsumerOptions(batch=given).batch, given)
        for given in (0, -1, MAX_BATCH + 1):
            error = self.assertRaises(errors.BadSetting, ConsumerOptions, batch=given)
            self.assertEqual(str(error), f"a batch of {given}: 1 to {MAX_BATCH} messages are allowed")
        self.assertLessEqual(MAX_BATCH, PREFETCH_MESSAGES)

    def test_values_that_a_type_checker_would_refuse(self) -> None:
        producers = {"timeout": "6", "limit": "x", "retries": 1.5, "coalesce": "yes", "max_in_flight": None}
        consumers = {
            "consume_from": 0,
            "local_offsets": 5,
            "max_reconsume": "16",
            "batch": "1",
            "suspension": None,
        }
        for make, wrong in ((ProducerOptions, producers), (ConsumerOptions, consumers)):
            for name, value in wrong.items():
                error = self.assertRaises(errors.BadSetting, make, **{name: value})
                self.assertEqual(str(error), f"option {name} can't be {value!r}")
        self.assertRaises(errors.BadSetting, ProducerOptions, timeout=float("nan"))
        self.assertEqual(ConsumerOptions(local_offsets=Path("o.json"), suspension=2).suspension, 2)
