"""The live page: one broker as it is, kept up to date by server-sent events. It is looked at, and nothing else.

The page is made of parts that templates render here; the stream sends those that have changed, and the browser
puts them in. So the page needs no library, no build and no network, and without a script it shows the moment it
was asked for. Parts are rendered once for all who look, and not at all while nobody does.
"""

from __future__ import annotations

import base64
import hmac
import secrets
from collections.abc import Callable
from importlib import resources
from ipaddress import ip_address
from typing import Any, Final, Protocol

import msgspec
from jinja2 import Environment, FunctionLoader
from twisted.internet.interfaces import IPushProducer, IReactorTime
from twisted.python.failure import Failure
from twisted.web.http import FORBIDDEN, SERVICE_UNAVAILABLE, UNAUTHORIZED
from twisted.web.server import NOT_DONE_YET, Request, Site
from zope.interface import implementer

from hatwisted.metrics.livestate import LiveState
from hatwisted.metrics.web import TIMEOUT, Folder, Page, QuietSite, plain
from hatwisted.timing.periodic import PeriodicCall
from hatwisted.wire.printable import printable

INTERVAL: Final = 1.0
"""Seconds between two looks."""
HOUR_EVERY: Final = 10
"""Looks between two renderings of the charts: moments come no faster."""
MAX_STREAMS: Final = 16
"""Pages open at a time; a further one shows the moment and isn't kept up to date."""
UNTAKEN: Final = 30
"""Looks after which a page that takes nothing gives its place up to another."""
KINDS: Final = {"live.css": "text/css; charset=utf-8", "live.js": "text/javascript; charset=utf-8"}
POLICY: Final = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src data:"


PAGE: Final = "the live page"
"""As an account of which passwords are tried."""
TOO_MANY_REQUESTS: Final = 429
COOKIE: Final = b"hatwisted-page"
"""Tells a browser that has given the right password from others at its address."""


class Tries(Protocol):
    """Wrong passwords of addresses."""

    def refuses(self, address: str, account: str) -> bool:
        """Have there been too many of late? Then this one isn't looked at, and is counted."""

    def failed(self, address: str, account: str) -> None:
        """There has been another."""


class Access:
    """Who may look.

    - credentials: "name:password" asked for by the browser; None: whoever reaches the port, by a name that no
      other site can have made its own
    - tries: counts wrong ones; None: there may be any number
    """

    def __init__(self, credentials: str | None, tries: Tries | None = None) -> None:
        self._secret = None if credentials is None else base64.b64encode(credentials.encode())
        self._tries = tries
        self._cookie_secret = secrets.token_hex(16).encode()

    def refusal(self, request: Request) -> bytes | None:
        """The answer to somebody who may not; None: he may."""
        if self._secret is None:
            if _own_name(request.getRequestHostname().decode("ascii", "replace")):
                return None
            request.setResponseCode(FORBIDDEN)
            return plain(request, "ask for this page by localhost or by an IP address\n")
        # As bytes: what isn't text is wrong, too.
        (given, *_) = request.requestHeaders.getRawHeaders(b"authorization") or (b"",)
        address = getattr(request.getClientAddress(), "host", "")
        known = hmac.compare_digest(request.getCookie(COOKIE) or b"", self._cookie_secret)
        if given and not known and self._tries is not None and self._tries.refuses(address, PAGE):
            request.setResponseCode(TOO_MANY_REQUESTS, b"Too Many Requests")
            request.setHeader("retry-after", "1")
            return plain(request, "too many wrong passwords have come from your address\n")
        kind, _, encoded = given.partition(b" ")
        if kind.lower() == b"basic" and hmac.compare_digest(encoded.strip(), self._secret):
            if not known:
                request.addCookie(COOKIE, self._cookie_secret, path=b"/", httpOnly=True, sameSite=b"strict")
            return None
        if given and self._tries is not None:
            self._tries.failed(address, PAGE)
        request.setResponseCode(UNAUTHORIZED)
        request.setHeader("www-authenticate", 'Basic realm="hatwisted", charset="UTF-8"')
        return plain(request, "name and password, please\n")


def _own_name(host: str) -> bool:
    """Is it no name of the DNS? A site could point one of its own here, and read the page in a visitor's
    browser."""
    if host == "localhost":
        return True
    try:
        ip_address(host.strip("[]"))
    except ValueError:
        return False
    return True


class Parts:
    """The page's parts. state: what they show."""

    def __init__(self, state: LiveState) -> None:
        self._state = state
        self._templates = Environment(
            loader=FunctionLoader(source),
            autoescape=True,
            trim_blocks=True,
            lstrip_blocks=True,
            finalize=_seen,
        )

    def page(self) -> str:
        """All of it."""
        shown = self._state.shown() | {"charts": self._state.charts()}
        return self._templates.get_template("live.html.jinja").render(shown)

    def changing(self) -> dict[str, str]:
        """What moves."""
        shown = self._state.shown()
        return {name: self._render(name, shown) for name in ("state", "events")}

    def hour(self) -> str:
        """The charts."""
        return self._render("hour", {"charts": self._state.charts()})

    def _render(self, name: str, shown: dict[str, Any]) -> str:
        return self._templates.get_template(f"{name}.html.jinja").render(shown)


def _seen(value: object) -> object:
    """What a template shows: others' text turns none around, and hides nothing. Markup is ours."""
    return printable(value) if type(value) is str else value


def source(name: str) -> str:
    """A file of the page."""
    return (resources.files(__package__) / "templates" / name).read_text(encoding="utf-8")


@implementer(IPushProducer)
class Stream:
    """One who looks."""

    def __init__(self, request: Request) -> None:
        self.request = request
        self._paused = False
        self._lacks = True
        """Has he missed a part that may stay as it is for long?"""
        self._missed = 0
        """Looks in a row."""
        request.registerProducer(self, True)

    def send(self, changed: bytes, whole: Callable[[], bytes]) -> None:
        """Unless he hasn't taken what was sent before: the next look has newer figures.

        - changed: since the look before
        - whole: gives all parts, for whom that isn't enough
        """
        if self._paused:
            self._lacks = True
            self._missed += 1
            if self._missed >= UNTAKEN:
                self.request.channel.forceAbortClient()  # a polite close would wait for him
            return
        self._missed = 0
        lacked, self._lacks = self._lacks, False
        self.request.write(whole() if lacked else changed)

    def pauseProducing(self) -> None:
        """See IPushProducer."""
        self._paused = True

    def resumeProducing(self) -> None:
        """See IPushProducer."""
        self._paused = False

    def stopProducing(self) -> None:
        """See IPushProducer."""
        self._paused = True


class Streams(Page):
    """All who look.

    - parts: what they see
    - clock: of the looks
    - access: who may
    """

    def __init__(self, parts: Parts, clock: IReactorTime, access: Access) -> None:
        super().__init__()
        self._parts = parts
        self._access = access
        self._streams: dict[Stream, None] = {}
        self._sent: dict[str, str] = {}
        self._looks = 0
        self._loop = PeriodicCall(clock, "keeping pages up to date", self._look)

    def shown(self, request: Request) -> bytes | int:
        """See Page."""
        refused = self._access.refusal(request)
        if refused is not None:
            return refused
        if len(self._streams) >= MAX_STREAMS:
            request.setResponseCode(SERVICE_UNAVAILABLE)
            return plain(request, f"{MAX_STREAMS} pages are open\n")
        request.setHeader("content-type", "text/event-stream; charset=utf-8")
        request.setHeader("cache-control", "no-store")
        stream = Stream(request)

        def gone(_: Failure) -> None:
            self._streams.pop(stream, None)
            if not self._streams:
                self._loop.stop()

        request.notifyFinish().addErrback(gone)
        request.write(b"retry: 1000\n\n")
        self._streams[stream] = None
        if not self._loop.running:
            self._looks = 0
            self._loop.start(INTERVAL, now=True)
        return NOT_DONE_YET

    def start(self) -> None:
        """The first who looks does that."""

    def stop(self) -> None:
        """The broker ends."""
        self._loop.stop()
        for stream in tuple(self._streams):
            stream.request.loseConnection()

    def _look(self) -> None:
        parts = self._parts.changing()
        if self._looks % HOUR_EVERY == 0 or "hour" not in self._sent:
            parts["hour"] = self._parts.hour()
        self._looks += 1
        changed = _events({name: text for name, text in parts.items() if self._sent.get(name) != text})
        self._sent |= parts
        for stream in tuple(self._streams):
            stream.send(changed, lambda: _events(self._sent))


def _events(parts: dict[str, str]) -> bytes:
    """As they are sent, by name."""
    return b"".join(
        b"event: %s\ndata: %s\n\n" % (name.encode(), msgspec.json.encode(text))
        for name, text in parts.items()
    )


class Answer(Page):
    """A page that is made at once.

    - make: gives it
    - access: who may see it
    - kind: its content type
    """

    def __init__(self, make: Callable[[], str], access: Access, kind: str) -> None:
        super().__init__()
        self._make = make
        self._access = access
        self._kind = kind

    def shown(self, request: Request) -> bytes | int:
        """See Page."""
        refused = self._access.refusal(request)
        if refused is not None:
            return refused
        request.setHeader("content-type", self._kind)
        request.setHeader("cache-control", "no-store")
        request.setHeader("content-security-policy", POLICY)
        request.setHeader("x-content-type-options", "nosniff")
        return self._make().encode()


def live_site(state: LiveState, access: Access, clock: IReactorTime) -> tuple[Site, Streams]:
    """What the port serves, and its streams, which have to be stopped.

    - state: what is shown
    - access: to whom
    - clock: of looks and time limits
    """
    parts = Parts(state)
    streams = Streams(parts, clock, access)
    root = Folder()
    root.putChild(b"", Answer(parts.page, access, "text/html; charset=utf-8"))
    root.putChild(b"stream", streams)
    for name, kind in KINDS.items():
        text = source(name)
        root.putChild(name.encode(), Answer(lambda text=text: text, access, kind))  # type: ignore[misc]
    return QuietSite(root, timeout=TIMEOUT, reactor=clock), streams
