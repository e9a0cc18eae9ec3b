"""`hatwisted produce` and `consume` as processes of their own: pipes, signals, exit codes, completion."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from testbed.brokergroup import OURS, BrokerGroup
from testbed.processes import REPOSITORY, dies_with_us, wait_until
from tests.support.patientprogram import PATIENT


@pytest.fixture(scope="module")
def group(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerGroup]:
    """Name server and master."""
    with BrokerGroup(tmp_path_factory.mktemp("commands"), namesrv_kind=OURS, role="ASYNC_MASTER") as group:
        assert group.namesrv is not None
        group.namesrv.start()
        group.master.start()
        wait_until(
            lambda: b"broker-a" in run(group, "cluster", "list").stdout, 60, "the broker is registered"
        )
        yield group


def environment(group: BrokerGroup) -> dict[str, str]:
    return os.environ | {"NAMESRV_ADDR": f"127.0.0.1:{group.namesrv_port}", "PYTHONPATH": str(REPOSITORY)}


def begin(group: BrokerGroup, *words: str) -> subprocess.Popen[bytes]:
    pipe = subprocess.PIPE
    argv = [*dies_with_us(), *PATIENT, *words]
    return subprocess.Popen(argv, stdin=pipe, stdout=pipe, stderr=pipe, env=environment(group))


def run(group: BrokerGroup, *words: str, given: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    process = begin(group, *words)
    out, err = process.communicate(given, timeout=120)
    assert b"Traceback" not in err, err.decode()
    return subprocess.CompletedProcess(words, process.returncode, out, err)


def test_a_pipe_through_two_topics(group: BrokerGroup) -> None:
    given = b"".join(b"line %d\n" % number for number in range(5000))
    assert run(group, "produce", "Here", given=given).returncode == 0
    printed = run(group, "consume", "Here", "--from", "first", "-c", "5000", "--json")
    assert printed.returncode == 0
    assert run(group, "produce", "There", "--ndjson", given=printed.stdout).returncode == 0
    copied = run(group, "consume", "There", "--from", "first", "-c", "5000").stdout
    assert sorted(copied.splitlines()) == sorted(given.splitlines())


def test_a_reader_that_leaves_ends_the_command_without_a_word(group: BrokerGroup) -> None:
    run(group, "produce", "Head", given=b"x" * 1000 + b"\n" + b"y\n" * 5000)
    process = begin(group, "consume", "Head", "--from", "first", "-g", "head")
    assert process.stdout is not None and process.stderr is not None
    process.stdout.readline()
    process.stdout.close()
    assert process.wait(120) == 1
    assert process.stderr.read() == b""
    process.stderr.close()


def test_interrupted_a_consumer_commits_and_ends_in_order(group: BrokerGroup) -> None:
    run(group, "produce", "Int", given=b"1\n2\n3\n")
    process = begin(group, "consume", "Int", "--from", "first", "-g", "int")
    assert process.stdout is not None
    seen = [process.stdout.readline() for _ in range(3)]
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=120)
    assert (process.returncode, err, sorted(seen)) == (0, b"", [b"1\n", b"2\n", b"3\n"])
    rest = run(group, "consume", "Int", "-g", "int", "--idle", "0.5")
    assert (rest.returncode, rest.stdout) == (0, b"")


def test_a_producer_waiting_for_a_terminal_can_be_interrupted(group: BrokerGroup) -> None:
    run(group, "produce", "Wait", given=b"a\n")
    process = begin(group, "produce", "Wait")
    assert process.stdin is not None
    process.stdin.write(b"one\n")
    process.stdin.flush()
    run(group, "consume", "Wait", "--from", "first", "-c", "2")
    process.send_signal(signal.SIGINT)
    # Its input stays open all the while: as a terminal's.
    assert process.wait(120) == 130
    process.stdin.close()
    assert process.stderr is not None and process.stdout is not None
    assert b"1 stored" in process.stderr.read()
    process.stdout.close()
    process.stderr.close()


def test_a_second_interrupt_ends_at_once(group: BrokerGroup) -> None:
    group.master.suspend()
    try:
        process = begin(group, "topic", "show", "TBW102")
        wait_until(lambda: is_connected(process.pid, group.master_port), 60, "it asks the master")
        # Two that come while it doesn't run are one to it: so one after the other, until it has ended; a third one
        # only if it had no time for the first.
        sent = 0
        for seconds in (2, 40, 40):
            if process.poll() is None:
                process.send_signal(signal.SIGINT)
                sent += 1
                with suppress(subprocess.TimeoutExpired):
                    process.wait(seconds)
        _, err = process.communicate(timeout=120)
        # On its way out Python has given its signals back: one more ends it there.
        assert process.returncode in (130, -signal.SIGINT) and err == b""
        assert sent > 1, "the first one asks it to end in order, and the master is silent"
    finally:
        group.master.resume()


def is_connected(pid: int, port: int) -> bool:
    """Has this process a connection to that port?"""
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    made = {f"socket:[{row[9]}]" for row in rows if row[2].endswith(f":{port:04X}") and row[3] == "01"}
    opened = set()
    for link in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):  # closed meanwhile
            opened.add(os.readlink(link))
    return bool(made & opened)


def test_commands_topics_and_groups_are_completed(group: BrokerGroup) -> None:
    run(group, "produce", "Completed", given=b"x\n")
    run(group, "consume", "Completed", "-g", "completers", "--from", "first", "-c", "1")
    for typed, expected in (
        (("pro",), "produce"),
        (("consume", "Com"), "Completed"),
        (("topic", "show", "Com"), "Completed"),
        (("group", "show", "compl"), "completers"),
        (("group", "reset", "completers", "Com"), "Completed"),
        (("consume", "Completed", "--or"), "--orderly"),
    ):
        # What the cluster doesn't say within a second isn't offered: on a busy machine it's another try's.
        wait_until(
            lambda words=typed, word=expected: word in completed(group, words), 60, f"{expected} is offered"
        )


def test_completion_without_a_cluster_is_silent(tmp_path: Path) -> None:
    with BrokerGroup(tmp_path) as nobody:
        assert completed(nobody, ("consume", "Com")) == ""


def completed(group: BrokerGroup, typed: tuple[str, ...]) -> str:
    """What the shell offers for the last word."""
    words = {
        "_HATWISTED_COMPLETE": "bash_complete",
        "COMP_WORDS": " ".join(("hatwisted", *typed)),
        "COMP_CWORD": str(len(typed)),
    }
    done = subprocess.run(PATIENT, env=environment(group) | words, capture_output=True, timeout=120)
    assert done.stderr == b""
    return done.stdout.decode().strip()


def test_the_list_of_commands_imports_none_of_them() -> None:
    check = "import sys; from hatwisted.cli.main import main; main(['--help'], standalone_mode=False)"
    heavy = "; sys.exit(','.join({'twisted', 'numpy', 'rich', 'msgspec'} & set(sys.modules)) or 0)"
    done = subprocess.run([sys.executable, "-c", check + heavy], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    assert "consume" in done.stdout


def test_commands_of_the_pipeline_import_no_client() -> None:
    """A third of what a landing of a few messages takes. Those that need one import it then."""
    words = ["pipeline", "land", "--help"]
    check = f"import sys; from hatwisted.cli.main import main; main({words}, standalone_mode=False)"
    heavy = "; sys.exit(','.join({'twisted', 'asyncio', 'cryptography', 'pyspark'} & set(sys.modules)) or 0)"
    done = subprocess.run([sys.executable, "-c", check + heavy], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr


def test_a_broker_starts_without_what_its_configuration_does_not_ask_for() -> None:
    """Pages, figures and YAML together would be a tenth of a second of each start."""
    check = "import sys, hatwisted.tap.hamaster, hatwisted.tap.haslave"
    heavy = (
        "; sys.exit(','.join({'twisted.web', 'jinja2', 'prometheus_client', 'yaml'} & set(sys.modules)) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", check + heavy], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr


def test_a_name_server_loads_no_broker() -> None:
    """Every sixth of its modules would be one that a broker needs."""
    check = "import sys, hatwisted.tap.hanamesrv"
    rooms = "{each for each in sys.modules if each.startswith(('hatwisted.broker', 'hatwisted.sqlfilter'))}"
    done = subprocess.run(
        [sys.executable, "-c", f"{check}; sys.exit(','.join({rooms}) or 0)"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
