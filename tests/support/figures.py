"""Reads what a server shows of itself: a page over the memory network, and the figures in it."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families
from twisted.internet.interfaces import IAddress
from twisted.internet.protocol import Factory, Protocol

from tests.support.memorynode import CLIENT_HOST, MemoryNodes


class Reader(Protocol):
    """Asks for one page and keeps the answer."""

    def __init__(self, request: bytes) -> None:
        self.request = request
        self.answer = b""
        self.closed = False

    def connectionMade(self) -> None:
        assert self.transport is not None
        self.transport.write(self.request)

    def dataReceived(self, data: bytes) -> None:
        self.answer += data

    def connectionLost(self, reason: object = None) -> None:
        self.closed = True


class Once(Factory):
    """Of one connection."""

    noisy = False

    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    def buildProtocol(self, addr: IAddress | None) -> Reader:
        return self._reader


def page(nodes: MemoryNodes, address: str, path: str, host: str = CLIENT_HOST) -> tuple[int, str]:
    """Status and body of a page; (0, "") if the connection is closed without an answer.

    - nodes: the network
    - address: "host:port"
    - path: with its slash
    - host: who asks
    """
    reader = Reader(f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
    nodes.visit(address, reader, host)
    nodes.pass_time(1)
    head, _, body = reader.answer.partition(b"\r\n\r\n")
    return (int(head.split()[1]), body.decode()) if head else (0, "")


class Figures:
    """The samples of a text of Prometheus."""

    def __init__(self, text: str) -> None:
        self.families = {family.name: family for family in text_string_to_metric_families(text)}
        self.samples = [sample for family in self.families.values() for sample in family.samples]

    def __call__(self, name: str, **labels: str) -> float:
        """The one sample of that name that has these labels."""
        found = [
            sample.value
            for sample in self.samples
            if sample.name == name and labels.items() <= sample.labels.items()
        ]
        assert len(found) == 1, f"{len(found)} of {name} {labels}"
        return found[0]

    def labels(self, name: str) -> list[dict[str, str]]:
        """Of all samples of that name."""
        return [dict(sample.labels) for sample in self.samples if sample.name == name]
