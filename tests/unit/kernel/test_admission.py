"""Usual sends: the compiled twin makes the puts that `Admission` makes, and leaves it what has to be judged."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from hatwisted.broker.put.sendstate import SendState
from hatwisted.broker.send.admission import Admission, Refused
from hatwisted.remoting.server import RemotingConnection
from hatwisted.store.log.put import Put
from hatwisted.wire.batch import CorruptBatch
from hatwisted.wire.remoting import RemotingCommand, SendCommand, SignedSendCommand
from hatwisted.wire.requestheader import SendHeader
from hatwisted.wire.signedsend import SignedSendHeader
from tests.support.examples import examples
from tests.support.kerneltwins import NOT_BUILT, compiled
from tests.unit.broker.rig import BrokerRig

PAIR = b"CLUSTER\x01DefaultCluster"
KNOWN = {"T": 4, "Wide": 400}
V4, V6 = bytes(8), bytes(20)

pieces = st.sampled_from(
    [
        *(
            "WAIT\x01true\x02",
            "WAIT\x01false\x02",
            "WAIT\x01true",
            "WAIT\x01",
            "AWAIT\x01true\x02",
            "\x02",
            "\x01",
        ),
        *(
            "DELAY\x01",
            "DELAY\x010\x02",
            "DELAY\x013\x02",
            "TRAN_MSG\x01true\x02",
            "TRAN_MSG\x01false\x02",
            "ü",
        ),
        *("TAGS\x01t\x02", "TAGS\x01t", "KEYS\x01a b\x02", "UNIQ_KEY\x017F0001\x02", "WAI", "DELA", "x"),
    ]
)
texts = st.lists(pieces, max_size=6).map("".join)
headers = st.builds(
    SendHeader,
    st.just("group"),
    st.sampled_from(["T", "T", "T", "Wide"]),
    st.just("TBW102"),
    st.just(4),
    st.sampled_from([0, 1, 3, 399]),
    st.sampled_from([0, 0, 0, 1, 0x10, 0x301, 4, 8, 12]),
    st.integers(0, 1 << 60),
    st.integers(-(1 << 31), (1 << 31) - 1),
    texts,
    st.integers(0, 20),
    st.booleans(),
    st.just(16),
    st.sampled_from([False, False, False, True]),
)


def sent(header: SendHeader, code: int = 310, body: bytes = b"body") -> SendCommand:
    return SendCommand(code, 1, header=header, body=body)


def signed(header: SendHeader, code: int = 310, body: bytes = b"body") -> SendCommand:
    """The same where sends are signed."""
    fields = {name: getattr(header, name) for name in SendHeader.__struct_fields__}
    if not fields["batch"]:
        del fields["batch"]
    return SignedSendCommand(code, 1, header=SignedSendHeader(**fields, access_key="me"), body=body)


class UsualPutTests(SynchronousTestCase):
    def setUp(self) -> None:
        if NOT_BUILT:
            self.skipTest(NOT_BUILT)
        rig = BrokerRig(self)  # type: ignore[no-untyped-call]
        state = SendState(lambda: 6, "127.0.0.1")
        rig.tables.topics.for_send("T", "TBW102", 4)
        self.admission = Admission(rig.store, rig.tables, "DefaultCluster", state)
        self.usual = compiled().UsualPuts(PAIR, Put)

    def judged(self, request: RemotingCommand, host: bytes) -> Put[Any] | None:
        """What Admission makes of it; None if it refuses it."""
        connection = cast(RemotingConnection, SimpleNamespace(host_bytes=host, peer="1.2.3.4:5"))
        try:
            return self.admission.put(connection, request, dict(KNOWN))
        except (Refused, CorruptBatch):
            return None

    @examples(150)
    @given(
        headers, st.sampled_from([310, 310, 320]), st.sampled_from([V4, V6]), st.sampled_from([sent, signed])
    )
    def test_a_put_that_is_made_is_admissions(
        self, header: SendHeader, code: int, host: bytes, made: Callable[[SendHeader, int], SendCommand]
    ) -> None:
        request, puts = made(header, code), list[Put[Any]]()
        if self.usual.take([request], 0, KNOWN, host, puts):
            (put,) = puts
            judged = self.judged(request, host)
            assert judged is not None
            self.assertEqual(msgspec.structs.astuple(put), msgspec.structs.astuple(judged))
            self.assertIs(put.token, request)

    def test_the_usual_ones_are_taken(self) -> None:
        header = SendHeader("g", "T", "TBW102", 4, 3, 1, 77, -5, "", 2, True)
        for text in (
            "",
            "A\x01b",
            "A\x01b\x02",
            "A\x01b\x02WAIT\x01true\x02C\x01d",
            "AB\x02WAIT\x01true\x02C\x01d\x02",
        ):
            puts: list[Put[Any]] = []
            request = sent(msgspec.structs.replace(header, properties=text))
            too = signed(msgspec.structs.replace(header, properties=text))
            self.assertEqual(self.usual.take((request, too, request), 0, KNOWN, V4, puts), 3, repr(text))

    def test_what_has_to_be_judged_is_left(self) -> None:
        usual = SendHeader("g", "T", "TBW102", 4, 3, 0, 77, 0, "")
        changes: list[dict[str, Any]] = [
            {"topic": "Unknown"},
            {"queue_id": 4},
            {"queue_id": -1},
            {"sys_flag": 4},
            {"batch": True},
            {"properties": "DELAY\x013"},
            {"properties": "TRAN_MSG\x01true"},
            {"properties": "WAIT\x01false\x02"},
            {"properties": "A\x01b\x02WAIT\x01true\x02"},
            {"properties": "A\x01ü"},
        ]
        left: list[Any] = [sent(msgspec.structs.replace(usual, **change)) for change in changes]
        left += [sent(usual, code=320), RemotingCommand(310), SendCommand(310), None]
        for request in left:
            puts: list[Put[Any]] = []
            self.assertEqual(self.usual.take([sent(usual), request], 0, KNOWN, V4, puts), 1)
            self.assertEqual(len(puts), 1)
            self.assertEqual(self.usual.take([sent(usual), request], 1, KNOWN, V4, puts), 1)
