"""The units of conf/systemd and their page: under a real systemd where one runs, and by its checker elsewhere."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from hatwisted.cli.cluster.slaveplan import unit_text
from testbed.processes import REPOSITORY
from tests.support.systemdrig import CHECKOUT, ENVIRONMENT, INSTALLED, run_story, why_not

UNITS = REPOSITORY / "conf" / "systemd"
PAGE = REPOSITORY / "docs" / "systemd.md"
NAMES = ("hatwisted-namesrv.service", "hatwisted-master@.service", "hatwisted-slave@.service")
MOST_EXPOSURE = 2.0
"""Of 10, as `systemd-analyze security` counts: what serves a network has 1 to 2 at best."""
SMALL = (
    "bindAddress=127.0.0.1\nbrokerIP1=127.0.0.1\nbrokerIP2=127.0.0.1\nnamesrvAddr=127.0.0.1:9876\n"
    "mappedFileSizeCommitLog=1048576\nmappedFileSizeConsumeQueue=20000\nmaxHashSlotNum=500\nmaxIndexNum=2000\n"
)
DROP_IN = f"""[Service]
Environment={ENVIRONMENT} PYTHONDONTWRITEBYTECODE=1
WatchdogSec=3
RestartSec=1
"""
"""Where the code of the test lies, and a watchdog that the story can wait for."""
INSTALLED_THEN = """
install -o hatwisted -m 600 /told/*.conf /etc/hatwisted
for unit in hatwisted-namesrv hatwisted-master@ hatwisted-slave@; do
    mkdir -p "/run/systemd/system/$unit.service.d"
    cp /told/test.dropin "/run/systemd/system/$unit.service.d/test.conf"
done
systemctl daemon-reload
systemd-analyze security --no-pager hatwisted-master@broker-a.service > /told/security.txt
"""
STARTED_THEN = """
systemctl show -p ActiveState,StatusText,User hatwisted-master@broker-a > /told/started.txt
systemctl show -p ActiveState,StatusText hatwisted-namesrv > /told/namesrv.txt
for number in 1 2 3; do echo "message $number"; done | hatwisted produce Told -n 127.0.0.1
until [[ "$(systemctl show -p StatusText hatwisted-slave@broker-a-s)" == *level* ]]; do sleep 0.2; done
systemctl show -p ActiveState,StatusText hatwisted-slave@broker-a-s > /told/slave.txt

echo fileReservedTime=24 >> /etc/hatwisted/broker-a.conf
systemctl reload hatwisted-master@broker-a
until hatwisted broker config get 127.0.0.1:10911 fileReservedTime | grep 24; do sleep 0.2; done
systemctl show -p ActiveState,NRestarts hatwisted-master@broker-a > /told/reloaded.txt

# Its reactor stands still.
kill -STOP "$(systemctl show -p MainPID --value hatwisted-master@broker-a)"
until [[ "$(systemctl show -p NRestarts,ActiveState hatwisted-master@broker-a | sort | xargs)" \\
        == "ActiveState=active NRestarts=1" ]]; do sleep 0.2; done
hatwisted consume Told -n 127.0.0.1 --from first --count 3 > /told/consumed.txt

systemctl stop hatwisted-slave@broker-a-s hatwisted-master@broker-a hatwisted-namesrv
systemctl show -p ActiveState,Result hatwisted-master@broker-a > /told/stopped.txt
find /var/lib/hatwisted -name abort > /told/aborts.txt
echo brokerRole=MASTER >> /etc/hatwisted/broker-a.conf
systemctl start hatwisted-master@broker-a && exit 1
systemctl show -p ActiveState,NRestarts,ExecMainStatus hatwisted-master@broker-a > /told/refused.txt
journalctl --no-pager -u hatwisted-master@broker-a -o cat > /told/journal.txt
touch /told/done
"""


def story() -> str:
    """The page's blocks as they stand there, and what is looked at behind each."""
    install, start = re.findall(r"^```sh\n(.*?)^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    # The environment is this test's, into which the checkout is linked.
    with_pip, _, install = install.partition("\n")
    assert "pip install" in with_pip
    assert f"{INSTALLED}/share/hatwisted/conf" in install
    install = install.replace(f"{INSTALLED}/share/hatwisted/conf", f"{CHECKOUT}/conf")
    return "\n".join((install, INSTALLED_THEN, start, STARTED_THEN))


def shown(path: Path) -> dict[str, str]:
    """What `systemctl show` has written."""
    return dict(line.partition("=")[::2] for line in path.read_text().splitlines())


def test_servers_live_under_a_real_systemd(tmp_path: Path) -> None:
    if reason := why_not():
        pytest.skip(reason)
    files = {
        "test.dropin": DROP_IN,
        "namesrv.conf": "bindAddress=127.0.0.1\n",
        "broker-a.conf": f"brokerName=broker-a\n{SMALL}",
        "broker-a-s.conf": f"brokerName=broker-a\nbrokerRole=SLAVE\nbrokerId=1\nlistenPort=10921\n{SMALL}",
    }
    out = run_story(tmp_path, story(), files)
    told = tmp_path / "told"
    started = shown(told / "started.txt")
    assert started["ActiveState"] == "active" and started["User"] == "hatwisted"
    assert started["StatusText"], out
    assert shown(told / "namesrv.txt")["StatusText"] == "name server on 127.0.0.1:9876"
    assert shown(told / "slave.txt")["ActiveState"] == "active"
    assert shown(told / "reloaded.txt") == {"ActiveState": "active", "NRestarts": "0"}
    assert len((told / "consumed.txt").read_text().splitlines()) == 3
    assert shown(told / "stopped.txt") == {"ActiveState": "inactive", "Result": "success"}
    assert (told / "aborts.txt").read_text() == "", "not stopped in order"
    assert shown(told / "refused.txt") == {"ActiveState": "failed", "NRestarts": "0", "ExecMainStatus": "1"}
    journal = (told / "journal.txt").read_text()
    assert "Watchdog timeout" in journal
    assert journal.count("ready: hatwisted") == 2
    assert "/etc/hatwisted/broker-a.conf:" in journal and "brokerRole: can't be 'MASTER'" in journal
    (exposure,) = re.findall(r"Overall exposure level for \S+: (\S+)", (told / "security.txt").read_text())
    assert float(exposure) < MOST_EXPOSURE


def test_systemd_s_checker_finds_nothing(tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("needs systemd-analyze")
    for name in NAMES:
        text = (UNITS / name).read_text()
        # The checker looks for the program, which isn't installed under that path here.
        (tmp_path / name).write_text(text.replace("/opt/hatwisted/bin/twistd", "/bin/true"))
    # The one that `hatwisted attach` prints.
    for name, folder in (("attached.service", str(tmp_path)), ("odd.service", f"{tmp_path}/my 50% $x")):
        (tmp_path / name).write_text(unit_text("/bin/true", folder, "broker-a"))
    names = [*NAMES, "attached.service", "odd.service"]
    files = [str(tmp_path / name.replace("@.", "@broker-a.")) for name in names]
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", *files],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    told = [line for line in done.stdout.splitlines() if str(tmp_path) in line or "hatwisted" in line]
    assert told == []


def test_the_units_differ_in_what_they_start_alone() -> None:
    common = [set((UNITS / name).read_text().splitlines()) for name in NAMES]
    different = {line.partition("=")[0] for each in common for line in each - set.intersection(*common)}
    assert {line for line in different if not line.startswith("#")} == {
        "Description",
        "After",
        "ExecStart",
        "Environment",
        "WorkingDirectory",
        "StateDirectory",
    }
