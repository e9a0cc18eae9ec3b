"""UPDATE_BROKER_CONFIG 25 and GET_BROKER_CONFIG 26: the configuration, seen and changed while the broker runs.

A change goes into the configuration file at once, the former content into `.bak` beside it, and is answered when
it's on the disk; keys in `EFFECTIVE` hold from then on too, others from the next start. Refused, with the key's
name and as a whole: values that the next start would refuse, names that aren't RocketMQ's, and `FIXED` keys, which
say who this broker is, who is let in, and how its store is laid out. RocketMQ takes all of that in silence and
then runs as something else, or not at all.
"""

from __future__ import annotations

from collections.abc import Callable
from difflib import get_close_matches

from twisted.internet.defer import Deferred, succeed
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from hatwisted.config.changing import EFFECTIVE, FIXED
from hatwisted.config.errors import ConfigError
from hatwisted.config.live import LiveConfig
from hatwisted.config.load import SIMILARITY, schema_fields
from hatwisted.config.rocketmqkeys import UNUSED_BROKER_KEYS
from hatwisted.config.schema import BrokerConfig
from hatwisted.remoting.processortable import ProcessorTable, response
from hatwisted.remoting.server import RemotingConnection
from hatwisted.wire import fastjson
from hatwisted.wire.codes import RequestCode, ResponseCode
from hatwisted.wire.registration import DataVersion
from hatwisted.wire.remoting import RemotingCommand

Answer = RemotingCommand | Deferred[RemotingCommand]


class BrokerConfigProcessors:
    """Answers 25 and 26.

    - clock: dates the answer
    - live: the configuration at present
    - written: fires when its file has it, with None, or with a remark about why it hasn't
    - check: ConfigError if a broker of this role can't start with it
    """

    _log = Logger()

    def __init__(
        self,
        clock: IReactorTime,
        live: LiveConfig[BrokerConfig],
        written: Callable[[], Deferred[str | None]] = lambda: succeed(None),
        check: Callable[[BrokerConfig], object] = lambda config: None,
    ) -> None:
        self._clock = clock
        self._live = live
        self._written = written
        self._check = check
        self._known = {field.encode_name for field in schema_fields(BrokerConfig)}
        self._version = DataVersion(timestamp=self._now())

    def register_on(self, table: ProcessorTable) -> None:
        """Put both handlers into `table`."""
        table.register(RequestCode.UPDATE_BROKER_CONFIG, self.update)
        table.register(RequestCode.GET_BROKER_CONFIG, self.show)

    def show(self, _connection: RemotingConnection, request: RemotingCommand) -> RemotingCommand:
        ext = {"version": fastjson.dumps_compact(self._version).decode()}
        return response(request, ext=ext, body=self._live.text())

    def update(self, _connection: RemotingConnection, request: RemotingCommand) -> Answer:
        """All of the values or, when one is wrong, none."""
        try:
            changes = self._live.parse(request.body)
            for key in changes:
                self._check_key(key)
            ignored = self._live.update(changes, self._check)
        except ConfigError as error:
            return response(request, ResponseCode.SYSTEM_ERROR, str(error))
        self._version = self._version.following(self._now())
        self._log.info(
            "changes of the configuration that hold after a restart: {later}; without effect: {ignored}",
            later=", ".join(sorted(changes.keys() - EFFECTIVE - set(ignored))) or "nothing",
            ignored=", ".join(ignored) or "nothing",
        )
        return self._written().addCallback(lambda remark: response(request, remark=remark))

    def _check_key(self, key: str) -> None:
        if key in FIXED:
            raise ConfigError(
                f"{key} can't be changed while the broker is running: edit its file and restart it"
            )
        if key not in self._known and key not in UNUSED_BROKER_KEYS:
            close = get_close_matches(key, self._known, 1, SIMILARITY)
            advice = f", did you mean {close[0]}?" if close else ""
            raise ConfigError(f"{key} isn't a key of a broker's configuration{advice}")

    def _now(self) -> int:
        return int(self._clock.seconds() * 1000)
