"""The PROXY header: both versions byte by byte, cut at every offset, and what is none."""

from __future__ import annotations

import struct

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from hatwisted.wire.proxyheader import (
    MAX_HEADER,
    MAX_LINE,
    SIGNATURE_2,
    ProxyHeader,
    ProxyHeaderError,
    parse_proxy_header,
)

V4 = bytes((10, 1, 2, 3, 10, 0, 0, 1)) + struct.pack(">HH", 50312, 10911)
V6 = bytes(15) + b"\1" + bytes(15) + b"\2" + struct.pack(">HH", 50312, 10911)


def version_2(command: int, family: int, payload: bytes) -> bytes:
    return SIGNATURE_2 + struct.pack(">BBH", command, family, len(payload)) + payload


CLIENT = ("10.1.2.3", 50312)
HEADERS = {
    b"PROXY TCP4 10.1.2.3 10.0.0.1 50312 10911\r\n": CLIENT,
    b"PROXY TCP6 fd00::1 fd00::2 50312 10911\r\n": ("fd00::1", 50312),
    b"PROXY UNKNOWN\r\n": None,
    b"PROXY UNKNOWN ffff:f...f:ffff ffff:f...f:ffff 65535 65535\r\n": None,
    version_2(0x21, 0x11, V4): CLIENT,
    version_2(0x21, 0x11, V4 + b"\x04\0\x03abc"): CLIENT,
    version_2(0x21, 0x21, V6): ("::1", 50312),
    version_2(0x20, 0x00, b""): None,
    version_2(0x20, 0x11, V4): None,
    version_2(0x21, 0x31, bytes(216)): None,
    version_2(0x21, 0x12, V4): None,
}
NONE = (
    b"GET / HTTP/1.1\r\n",
    b"\0\0\1\2",
    b"PROXY TCP4 10.1.2.3 10.0.0.1 50312\r\n",
    b"PROXY TCP4 10.1.2.3 10.0.0.1 50312 10911 1\r\n",
    b"PROXY TCP4 fd00::1 fd00::2 50312 10911\r\n",
    b"PROXY TCP4 localhost 10.0.0.1 50312 10911\r\n",
    b"PROXY TCP4 10.1.2.3 10.0.0.1 65536 10911\r\n",
    b"PROXY TCP4 10.1.2.3 10.0.0.1 -1 10911\r\n",
    b"PROXY UDP4 10.1.2.3 10.0.0.1 1 10911\r\n",
    b"PROXY TCP4 " + b"1" * MAX_LINE,
    version_2(0x11, 0x11, V4),
    version_2(0x22, 0x11, V4),
    version_2(0x21, 0x11, V4[:-1]),
    version_2(0x21, 0x21, V4),
    SIGNATURE_2 + struct.pack(">BBH", 0x21, 0x11, MAX_HEADER),
)


class ProxyHeaderTests(SynchronousTestCase):
    def test_a_header_names_the_client_and_its_own_size(self) -> None:
        for data, client in HEADERS.items():
            for rest in (b"", b"\0\0\0\x10frame", b"\r\n"):
                self.assertEqual(parse_proxy_header(data + rest), ProxyHeader(client, len(data)), data)

    def test_one_that_is_cut_is_waited_for(self) -> None:
        for data in HEADERS:
            for cut in range(len(data)):
                self.assertIsNone(parse_proxy_header(data[:cut]), data[:cut])

    def test_what_is_none_is_refused(self) -> None:
        for data in NONE:
            with self.assertRaises(ProxyHeaderError):
                parse_proxy_header(data)

    @given(
        st.sampled_from((b"", b"PROXY ", b"PROXY TCP4 ", SIGNATURE_2, SIGNATURE_2 + b"\x21\x11")), st.binary()
    )
    def test_any_bytes_are_a_header_or_wait_or_are_refused(self, start: bytes, more: bytes) -> None:
        data = start + more
        try:
            header = parse_proxy_header(data)
        except ProxyHeaderError:
            return
        if header is None:
            self.assertLess(len(data), MAX_HEADER)
        else:
            self.assertLessEqual(header.size, len(data))
