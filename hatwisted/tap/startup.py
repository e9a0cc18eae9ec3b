"""From twistd's command line to a service, or to one line on standard error and exit status 1.

Whatever can be wrong should show in `makeService`: twistd hasn't forked yet, so the operator's terminal
still gets the line, daemonised or not. What only shows when services start (after the fork: a POSIX record
lock doesn't survive one) passes through twistd, which removes the pid file and informs the waiting parent;
with `-n` it would end in a traceback, which the exception hook below turns into the same line. The parent
prints two lines of its own with the first 100 characters, so the line itself is written before them.

Rejected: raising usage.UsageError, for which twistd prints the whole help text before the message.
"""

from __future__ import annotations

import atexit
import gc
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, chdir, contextmanager, suppress
from types import TracebackType
from typing import Any, ClassVar, TypeVar

from twisted.application.service import IService, MultiService
from twisted.internet.error import CannotListenError
from twisted.logger import Logger, globalLogPublisher
from twisted.python import usage

from hatwisted.assembly.accountfiles import files_of_accounts
from hatwisted.assembly.nameserver import stacked
from hatwisted.assembly.orders import Orders
from hatwisted.assembly.parts import Parts
from hatwisted.clientcore.credentialfile import legible
from hatwisted.config.errors import ConfigError, SettingError
from hatwisted.config.load import Loaded, Source, effective_text
from hatwisted.config.protection import missing_protection, open_to_strangers
from hatwisted.config.schema import BrokerConfig, BrokerRole, NamesrvConfig
from hatwisted.store.disk.filesystem import PRIVATE
from hatwisted.store.errors import StoreError
from hatwisted.tap.idlepoll import idle_polling
from hatwisted.tap.legible import secret_files, told_on_command_line
from hatwisted.tap.printablelog import keep_log_printable
from hatwisted.tap.realparts import real_parts
from hatwisted.tap.serverlog import DAILY, KEPT_FILES, LogPlan, process_log
from hatwisted.tap.signals import Signals
from hatwisted.tap.startwatch import StartWatch
from hatwisted.tap.supervisor import Supervisor, supervisor
from hatwisted.timing.garbage import GarbageCollection
from hatwisted.wire.printable import printable

log = Logger()

# Errors of the surroundings (a file, a folder, a port): reported in one line. Anything else is a bug and keeps
# its traceback.
EXPECTED = (ConfigError, StoreError, CannotListenError, OSError)

C = TypeVar("C", bound=BrokerConfig | NamesrvConfig)


class ServerOptions(usage.Options):
    """What all three subcommands take."""

    optParameters: ClassVar[list[list[Any]]] = [
        ["conf", "c", None, "RocketMQ properties file; without one, RocketMQ's defaults apply."],
        ["log-rotate", None, DAILY, "When a log file begins anew: daily, never, or at a size such as 64m."],
        ["log-keep", None, str(KEPT_FILES), "Former log files that are kept."],
        ["log-format", None, "text", "text, or json: one object a line."],
    ]
    optFlags: ClassVar[list[list[Any]]] = [
        ["print-config", "p", "Print the effective configuration and exit."],
        ["allow-open", None, "Start even if the configuration asks for protection that isn't given."],
    ]

    def __init__(self) -> None:
        super().__init__()
        self.overrides: list[str] = []

    def postOptions(self) -> None:
        """Have twistd use our log, unless it was given another."""
        self.log_plan = LogPlan(self["log-rotate"], self["log-keep"], self["log-format"], _umask(self))
        twistd = self.parent
        if twistd is not None and not twistd.get("logger") and not twistd.get("syslog"):
            twistd["logger"] = process_log.use(
                self.log_plan, twistd.get("logfile"), daemon=not twistd.get("nodaemon")
            )

    def opt_set(self, assignment: str) -> None:
        """key=value: overrides a key of the file; may be repeated."""
        self.overrides.append(assignment)

    opt_s = opt_set


class BrokerOptions(ServerOptions):
    """What brokers take in addition."""

    def opt_namesrv(self, addresses: str) -> None:
        """Name servers as host:port;host:port, the same as --set namesrvAddr=..."""
        self.overrides.append(f"namesrvAddr={addresses}")

    opt_n = opt_namesrv


def make_service(
    program: str,
    options: ServerOptions,
    load: Callable[[str | None, list[str], Mapping[str, str]], Loaded[C]],
    build: Callable[[C, Parts], IService],
) -> IService:
    """Load the configuration, report its warnings and build the service of real parts, on the default reactor.

    - program: its name, for error messages
    - options: of the command line
    - load: gives the configuration
    - build: puts the node together

    Exits with 1 and one line on standard error when the configuration, a folder or a port is at fault, and with 0
    after `--print-config`.
    """
    keep_log_printable()
    atexit.register(gc.freeze)  # Python would look for garbage once more in all that has been loaded: 0.1 s
    terminal = Terminal(program, log_is_shown=_log_is_shown(options))
    terminal.explain_late_errors()
    with _explained(program):
        loaded = load(options["conf"], options.overrides, os.environ)
        open_because = missing_protection(loaded)
        refused = bool(open_because) and not options["allow-open"]
        warnings = [*loaded.warnings, *told_on_command_line(loaded), *(() if refused else open_because)]
        if options["print-config"]:
            terminal.warn(warnings)
            sys.stdout.write(effective_text(loaded))
        if refused:
            raise ConfigError(f"{open_because[0]}; remove it, or start with --allow-open")
        if options["print-config"]:
            raise SystemExit(0)
        for warning in warnings:
            # Not `warning=`: Twisted takes that key for a Python warning.
            log.warn("{line}", line=warning)
        # Not at the top: importing it installs the default reactor, and twistd may have been asked for
        # another.
        from twisted.internet import reactor

        with _placed(loaded.source):
            parts = real_parts(reactor, _umask(options))
            watcher = supervisor(os.environ, parts.clock, time.monotonic_ns, os.getpid())
            rereading = Rereading(options, load, loaded.config, parts.orders, watcher)
            signals = Signals(reactor, rereading.again, parts.orders.hasten)
            watch = None
            if _is_slave(loaded.config) and not _log_is_shown(options):
                watch = StartWatch(globalLogPublisher, reactor, terminal.tell, terminal.close)
            collection = GarbageCollection(parts.clock, parts.pauses)
            node = stacked(build(loaded.config, parts), collection, *idle_polling(reactor, loaded.config))
            service = StartupService(node, terminal, signals, watcher, parts.steady_time, watch)
        if not _log_is_shown(options):
            # Not before: a start that is refused says so in one line.
            terminal.warn(warnings)
        log.info(
            "{descriptors} descriptors: {connections} for connections of clients, the others for files and links",
            descriptors=parts.descriptors,
            connections=parts.connections.most,
        )
        secret = [*secret_files(loaded), *files_of_accounts(loaded.config, parts.file_system)]
        terminal.warn_once_started(open_to_strangers(loaded.config), legible(secret))
        return service


def _umask(options: ServerOptions) -> int:
    """What is kept from other users of the machine: everything, unless twistd was told otherwise (--umask)."""
    given = None if options.parent is None else options.parent.get("umask")
    return PRIVATE if given is None else int(given)


def _is_slave(config: BrokerConfig | NamesrvConfig) -> bool:
    return isinstance(config, BrokerConfig) and config.broker_role is BrokerRole.SLAVE


def _log_is_shown(options: ServerOptions) -> bool:
    """Does the log go where the operator looks? Then a warning is there already."""
    twistd = options.parent
    return bool(twistd is not None and twistd["nodaemon"] and twistd["logfile"] in (None, "", "-"))


class StartupService(MultiService):
    """Runs the server's services. A failure to start them is logged, and shown on the terminal, which a daemon has
    left by then.

    - service: all of them
    - terminal: of the operator who starts it
    - signals: that it takes while it runs
    - watcher: who is told how it goes
    - time: runs as long as they do, and keeps their clock steady; None: there is none
    - watch: has the terminal see what the first seconds bring; None: nothing more is to be seen there
    """

    def __init__(
        self,
        service: IService,
        terminal: Terminal,
        signals: Signals,
        watcher: Supervisor,
        time: IService | None,
        watch: StartWatch | None = None,
    ) -> None:
        super().__init__()
        self._terminal = terminal
        self._watch = watch
        self._signals = signals
        self._watcher = watcher
        if time is not None:
            time.setServiceParent(self)
        service.setServiceParent(self)

    def privilegedStartService(self) -> None:
        with self._terminal.reported():
            super().privilegedStartService()

    def startService(self) -> None:
        self._watcher.starting()
        with self._terminal.reported():
            super().startService()
        self._terminal.started()
        if self._watch is None:
            self._terminal.close()
        else:
            self._watch.start()
        self._signals.start()
        self._watcher.started()

    def stopService(self) -> Any:
        self._watcher.stopping()
        self._signals.stop()
        if self._watch is not None:
            self._watch.stop()
        return super().stopService()


class Rereading:
    """Reads the configuration again, as at the start, and opens the log file again.

    - options: of the command line
    - load: gives the configuration
    - config: what it gave at the start
    - orders: whom to tell
    - watcher: is told when it begins and ends
    """

    def __init__(
        self,
        options: ServerOptions,
        load: Callable[[str | None, list[str], Mapping[str, str]], Loaded[C]],
        config: C,
        orders: Orders,
        watcher: Supervisor,
    ) -> None:
        self._options = options
        self._load = load
        self._config = config
        self._orders = orders
        self._watcher = watcher
        self._folder = os.getcwd()

    def again(self) -> None:
        """Once more. What can't be used changes nothing, and the log says why."""
        self._watcher.reloading()
        try:
            self._again()
        finally:
            self._watcher.ready()

    def _again(self) -> None:
        try:
            self._options.log_plan.reopen()
        except OSError as error:
            log.error("the log isn't opened again: {error}; it goes on where it was", error=one_line(error))
        try:
            loaded = self._loaded()
            for warning in loaded.warnings:
                log.warn("{line}", line=warning)
            self._orders.reread(self._config, loaded.config)
        except EXPECTED as error:
            log.error(
                "configuration not read again: {error}; what was in effect stays so",
                event="config.refused", error=one_line(error),
            )  # fmt: skip
            return
        # Not before all have taken it: what one of them couldn't take is offered again next time.
        self._config = loaded.config

    def _loaded(self) -> Loaded[Any]:
        """Where the command line was written: a daemon may have gone to another folder since (--rundir)."""
        with ExitStack() as there:
            with suppress(OSError):  # it's gone, or not for the user that this process has become
                there.enter_context(chdir(self._folder))
            return self._load(self._options["conf"], self._options.overrides, os.environ)


class Terminal:
    """Standard error as it was on the command line.

    The log takes `sys.stderr` over before services start, and a daemon's descriptor leads nowhere by then: a
    duplicate passes through the fork. It's closed when the start has succeeded, or whoever waits for the end
    of the output would wait for the daemon's.

    - program: whose name each line begins with
    - log_is_shown: does the log go there as well?
    """

    def __init__(self, program: str, *, log_is_shown: bool) -> None:
        self._program = program
        self._log_is_shown = log_is_shown
        self._stream = sys.stderr
        self._pid = os.getpid()
        self._descriptor: int | None = os.dup(2)
        self._warnings: Sequence[str] = ()

    def warn(self, lines: Iterable[str]) -> None:
        """Show these now, before the fork; the log has them, too, if there is one."""
        for line in lines:
            self._stream.write(f"{self._program}: warning: {printable(line)}\n")

    def warn_once_started(self, *lines: str | None) -> None:
        """What the log and the operator are told once the server runs; None: nothing."""
        self._warnings = [*filter(None, lines)]

    def started(self) -> None:
        """The server runs: say what there is to say, once."""
        warnings, self._warnings = self._warnings, ()
        for warning in warnings:
            log.warn("{line}", line=warning)
            if not self._log_is_shown:
                self._write(f"warning: {printable(warning)}")

    def tell(self, line: str) -> None:
        """Show what the log has, too."""
        self._write(printable(" ".join(line.split())))

    def close(self) -> None:
        """Let go of the terminal; idempotent."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _write(self, line: str) -> None:
        if self._descriptor is None:
            return
        with suppress(OSError):  # gone: the log has it
            os.write(self._descriptor, f"{self._program}: {line}\n".encode())

    @contextmanager
    def reported(self) -> Iterator[None]:
        """Log what goes wrong inside; after a fork print it as well, as twistd would cut it short there."""
        try:
            yield
        except EXPECTED as error:
            log.critical("can't start: {error}", event="server.failed", error=one_line(error))
            if self._descriptor is not None and os.getpid() != self._pid:
                self._write(one_line(error))
            raise

    def explain_late_errors(self) -> None:
        """In the foreground such an error ends the process: with a line instead of a traceback."""

        def hook(kind: type[BaseException], error: BaseException, traceback: TracebackType | None) -> None:
            if isinstance(error, EXPECTED):
                self._stream.write(f"{self._program}: {one_line(error)}\n")
            else:
                sys.__excepthook__(kind, error, traceback)

        sys.excepthook = hook


def one_line(error: BaseException) -> str:
    """What went wrong, without line breaks; a bare OSError preceded by its file."""
    if isinstance(error, OSError) and type(error).__module__ == "builtins" and error.strerror:
        text = f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    else:
        text = str(error) or type(error).__name__
    return printable(" ".join(text.split()))


@contextmanager
def _explained(program: str) -> Iterator[None]:
    try:
        yield
    except EXPECTED as error:
        sys.stderr.write(f"{program}: {one_line(error)}\n")
        raise SystemExit(1) from None


@contextmanager
def _placed(source: Source) -> Iterator[None]:
    """Prefix an error that a setting has caused with the setting's file and line."""
    try:
        yield
    except SettingError as error:
        raise ConfigError(f"{source.where(error.key)}: {error.key}: {error}") from None
