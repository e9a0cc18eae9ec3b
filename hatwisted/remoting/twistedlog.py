"""The client's words through Twisted's logger."""

from __future__ import annotations

from twisted.logger import Logger, LogLevel
from twisted.python.failure import Failure


class TwistedLog:
    """A `clientcore.driver.Log` under the namespace `name`."""

    def __init__(self, name: str) -> None:
        logger = Logger(namespace=name)
        self.debug, self.info = logger.debug, logger.info
        self.warn, self.error = logger.warn, logger.error
        self._failure = logger.failure

    def exception(self, format: str, error: BaseException, **fields: object) -> None:
        """At error, with the traceback of `error`."""
        failure = Failure(error, type(error), error.__traceback__)
        self._failure(format, failure, LogLevel.error, **fields)
