"""The templates of `consume -f` and the separators of -K."""

from dataclasses import replace

import msgspec
from twisted.trial.unittest import SynchronousTestCase

from hatwisted.cli.cluster.messageformat import TOKENS, formatted, keyed, unescaped
from hatwisted.cli.cluster.msg import _described
from hatwisted.clientcore.message import ReceivedMessage
from hatwisted.wire.messagequeue import MessageQueue

MESSAGE = ReceivedMessage(
    topic="Orders",
    queue=MessageQueue(topic="Orders", broker_name="broker-a", queue_id=3),
    queue_offset=42,
    body="größer".encode(),
    properties={"KEYS": "a b", "TAGS": "red", "UNIQ_KEY": "U", "colour": "blue", "size": "7"},
    message_id="ID",
    offset_id="OFFSET",
    commit_log_offset=0,
    store_host="127.0.0.1:10911",
    born_timestamp=1000,
    store_timestamp=2000,
    reconsume_times=0,
    flag=0,
    sys_flag=0,
    size=100,
)


class DescribedTests(SynchronousTestCase):
    def test_times_that_are_none_are_shown_as_numbers(self) -> None:
        for time in (1 << 62, -(1 << 62)):
            text = _described(replace(MESSAGE, born_timestamp=time)).decode()
            self.assertIn(str(time), text)
            self.assertIn("1970-01-01 00:00:02.000Z by", text)


class MessageFormatTests(SynchronousTestCase):
    def test_kcats_own_example(self) -> None:
        line = formatted(r"Topic %t [%p] at offset %o: key %k: %s\n")(MESSAGE)
        self.assertEqual(line.decode(), "Topic Orders [3] at offset 42: key a b: größer\n")

    def test_a_place_is_where_the_message_lies(self) -> None:
        queue = msgspec.structs.replace(MESSAGE.queue, topic="%RETRY%desk")
        self.assertEqual(formatted("%t/%p/%o")(replace(MESSAGE, queue=queue)), b"%RETRY%desk/3/42")

    def test_every_token(self) -> None:
        expected = {
            "s": "größer".encode(),
            "S": b"8",
            "R": b"\0\0\0\x08",
            "k": b"a b",
            "K": b"3",
            "T": b"2000",
            "h": b"colour=blue,size=7",
            "t": b"Orders",
            "p": b"3",
            "o": b"42",
            "b": b"broker-a",
            "B": b"1000",
            "g": b"red",
            "i": b"ID",
            "%": b"%",
        }
        self.assertEqual({token: formatted("%" + token)(MESSAGE) for token in TOKENS}, expected)
        self.assertEqual(formatted("")(MESSAGE), b"")

    def test_escapes(self) -> None:
        self.assertEqual(unescaped(r"a\tb\x00\xfF\\n\0"), b"a\tb\0\xff\\n\0")
        self.assertEqual(unescaped("ü"), "ü".encode())
        self.assertEqual(keyed(unescaped(r"\t"))(MESSAGE), "a b\tgrößer\n".encode())

    def test_what_is_no_token_is_named(self) -> None:
        for template, said in (
            ("%z", "%z isn't one of %s"),
            ("100%", "% isn't one of"),
            (r"\q", r"\q isn't"),
        ):
            self.assertIn(said, str(self.assertRaises(ValueError, formatted, template)))
        self.assertRaises(ValueError, unescaped, "end\\")
