"""Fields of a command that headers don't have: whatever a peer calls its own, these stay ours."""

from __future__ import annotations

import itertools

from twisted.trial.unittest import SynchronousTestCase

from hatwisted.wire.remoting import RemotingReceiver, SendCommand, SignedSendCommand
from tests.support.kerneltwins import twins
from tests.unit.wire.test_remoting import SEND_HEADER, frame, one


class OwnFieldsTests(SynchronousTestCase):
    def test_no_header_gives_a_value_to_what_headers_do_not_have(self) -> None:
        """Or peers could say themselves what their signatures cover."""
        ours = [name for name in SignedSendCommand.__struct_encode_fields__ if name.startswith("(")]
        self.assertEqual(set(ours), {"(body)", "(binary)", "(ext)", "(encoded)", "(signed)"})
        values = ('"cGF5"', '""', "true", "1", "null", '{"b":"x"}', "[]")
        for name, value, code in itertools.product(ours, values, (12, 310, 320)):
            honest = SEND_HEADER.replace(b"310", b"%d" % code)
            said = f'"{name}":{value},"flag":0'.encode()
            for named in (said, said.replace(b"(", rb"\u0028"), said.replace(b":0", b":0,") + said):
                header = honest.replace(b'"flag":0', named)
                for kinds in ({}, {"typed_sends": True}, {"signed_sends": True}):
                    for twin in twins():
                        take = twin.take_signed_sends if "signed_sends" in kinds else twin.take_sends
                        receiver = RemotingReceiver(**kinds, take_sends=take)
                        found, plain = receiver.receive(frame(header, b"real") + frame(honest, b"real"))
                        if isinstance(found, SignedSendCommand):
                            self.assertEqual((found.encoded, found.signed), (header, b""))
                        if isinstance(found, SendCommand):
                            self.assertEqual((found.ext, found.binary, found.body), ({}, False, b"real"))
                            assert isinstance(plain, SendCommand)
                            self.assertEqual(found.header, plain.header)
                        else:
                            self.assertEqual(found, one(frame(honest, b"real")), header)
