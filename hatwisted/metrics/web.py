"""The port: /metrics for Prometheus, /healthz and /readyz for probes. It is read from, and nothing else.

HTTP on the loopback address unless the operator says otherwise; what opens the port may put TLS before it. A
request's body is dropped as it comes; connections have a time limit and a number.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from io import BytesIO
from typing import Any, Final, Protocol

from prometheus_client import CONTENT_TYPE_LATEST
from twisted.internet.interfaces import IAddress, IDelayedCall, IReactorTime
from twisted.logger import Logger
from twisted.protocols.policies import ProtocolWrapper, WrappingFactory
from twisted.python.failure import Failure
from twisted.web.http import INTERNAL_SERVER_ERROR, NOT_ALLOWED, SERVICE_UNAVAILABLE, HTTPChannel
from twisted.web.pages import notFound
from twisted.web.resource import IResource, Resource
from twisted.web.server import NOT_DONE_YET, Request, Site

from hatwisted.metrics.exposition import Exposition
from hatwisted.wire.networks import Networks, counted_as

MAX_CONNECTIONS: Final = 64
"""Open at a time: a scraper or two, probes, a few pages. Beyond that the oldest of the host that has most of them
is closed, not the newcomer: a probe that isn't let in ends a broker which is well."""

TIMEOUT: Final = 30.0
"""Seconds that a client has for a whole request, from its connection or from the answer before it, and for taking
an answer. Scrapers come every 15 s or so and keep their connection."""

TEXT: Final = "text/plain; charset=utf-8"

INDEX: Final = "/metrics  figures for Prometheus\n/healthz  does it live?\n/readyz   is it ready?\n"


class BodilessRequest(Request):
    """One whose body, which nothing here asks for, costs no memory and no file."""

    def gotLength(self, length: int | None) -> None:
        """See Request."""
        self.content = BytesIO()

    def handleContentChunk(self, data: bytes) -> None:
        """See Request."""


class TurnByTurn(HTTPChannel):
    """A connection whose requests have a turn of the loop each, however many have come at once, and one time limit
    each, however often a byte of them comes."""

    _lost = False
    _last: IDelayedCall | None = None

    def requestDone(self, request: Request) -> None:
        """See HTTPChannel, which goes on with the next one at once."""
        self.callLater(0, lambda: self._next(request))

    def _next(self, request: Request) -> None:
        if self._lost:
            return
        super().requestDone(request)
        if not self.persistent and not self._lost:
            # It closes once the answer is taken, and that may be never.
            self._last = self.callLater(TIMEOUT, self.forceAbortClient)

    def resetTimeout(self) -> None:
        """See TimeoutMixin, which HTTPChannel tells of each byte."""

    def connectionLost(self, reason: Failure) -> None:  # type: ignore[override]
        """See HTTPChannel."""
        self._lost = True
        if self._last is not None and self._last.active():
            self._last.cancel()
        super().connectionLost(reason)


class QuietSite(Site):
    """Without an access log: probes come every few seconds."""

    protocol = TurnByTurn  # type: ignore[assignment]
    requestFactory = BodilessRequest
    displayTracebacks = False

    def log(self, request: Any) -> None:
        """See Site."""


class Gate(WrappingFactory):
    """Lets connections in. site: what they ask; networks: from where they may come, None: from everywhere."""

    noisy = False

    def __init__(self, site: Site, networks: Networks | None) -> None:
        super().__init__(site)
        self._networks = networks
        self._hosts: dict[ProtocolWrapper, str] = {}
        """Of those that are open, the oldest first."""

    def buildProtocol(self, addr: IAddress | None) -> ProtocolWrapper | None:  # type: ignore[override]
        """See Factory: None closes the connection."""
        host = getattr(addr, "host", "")
        if self._networks is not None and host not in self._networks:
            return None
        return super().buildProtocol(addr)

    def registerProtocol(self, p: ProtocolWrapper) -> None:
        """See WrappingFactory: a connection has begun."""
        super().registerProtocol(p)
        self._hosts[p] = counted_as(getattr(p.getPeer(), "host", ""))
        if len(self._hosts) > MAX_CONNECTIONS:
            ((host, _),) = Counter(self._hosts.values()).most_common(1)
            oldest = next(each for each, of in self._hosts.items() if of == host)
            del self._hosts[oldest]
            oldest.abortConnection()

    def unregisterProtocol(self, p: ProtocolWrapper) -> None:
        """See WrappingFactory: it has ended."""
        super().unregisterProtocol(p)
        self._hosts.pop(p, None)


class Probed(Protocol):
    """What is wrong with a server, in words."""

    def dead(self) -> list[str]:
        """What only a restart mends, a line each."""

    def unready(self) -> list[str]:
        """Why clients had better go elsewhere, a line each; `dead` is among it."""


class Page(Resource):
    """One that is read."""

    isLeaf = True

    def render(self, request: Request) -> bytes | int:
        """See Resource."""
        if request.method not in (b"GET", b"HEAD"):
            request.setResponseCode(NOT_ALLOWED)
            request.setHeader("allow", "GET, HEAD")
            return plain(request, "this is only read\n")
        return self.shown(request)

    def shown(self, request: Request) -> bytes | int:
        """The answer."""
        raise NotImplementedError


class Folder(Resource):
    """Whose other pages don't exist."""

    def getChild(self, path: bytes, request: Request) -> IResource:
        """See Resource."""
        found: IResource = notFound()
        return found


class Words(Page):
    """A page of text. text: gives it, and whether all is well."""

    def __init__(self, text: Callable[[], tuple[bool, str]]) -> None:
        super().__init__()
        self._text = text

    def shown(self, request: Request) -> bytes:
        """See Page."""
        well, text = self._text()
        if not well:
            request.setResponseCode(SERVICE_UNAVAILABLE)
        return plain(request, text)


class Figures(Page):
    """/metrics."""

    _log = Logger()

    def __init__(self, exposition: Exposition) -> None:
        super().__init__()
        self._exposition = exposition

    def shown(self, request: Request) -> int:
        """See Page."""
        gone: list[Failure] = []
        request.notifyFinish().addErrback(gone.append)

        def answer(text: bytes) -> None:
            if not gone:
                request.setHeader("content-type", CONTENT_TYPE_LATEST)
                request.setHeader("content-length", str(len(text)))
                request.write(b"" if request.method == b"HEAD" else text)
                request.finish()

        def failed(failure: Failure) -> None:
            self._log.failure("figures can't be shown", failure)
            if not gone:
                request.setResponseCode(INTERNAL_SERVER_ERROR)
                request.write(plain(request, "the figures can't be shown, the server's log says why\n"))
                request.finish()

        self._exposition.text().addCallbacks(answer, failed)
        return NOT_DONE_YET


def plain(request: Request, text: str) -> bytes:
    """An answer in words."""
    request.setHeader("content-type", TEXT)
    request.setHeader("cache-control", "no-store")
    return text.encode()


def reasons(found: list[str]) -> tuple[bool, str]:
    """Whether all is well, and the page that says so."""
    return not found, "".join(f"{line}\n" for line in found) or "ok\n"


def metrics_site(exposition: Exposition, health: Probed, clock: IReactorTime) -> Site:
    """What the port serves.

    - exposition: the figures
    - health: what is wrong
    - clock: of time limits
    """
    root = Folder()
    root.putChild(b"", Words(lambda: (True, INDEX)))
    root.putChild(b"metrics", Figures(exposition))
    root.putChild(b"healthz", Words(lambda: reasons(health.dead())))
    root.putChild(b"readyz", Words(lambda: reasons(health.unready())))
    return QuietSite(root, timeout=TIMEOUT, reactor=clock)
