"""Reference pages of docs/: their blocks of commands, in a folder with a group that `hatwisted up` has started."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.clistores import golden_copy, overwrite, write_log
from tests.support.pages import DOCS, put_in, run_block, to_run
from tests.support.soak import only_in_soak
from tests.support.upgroup import UpGroup, said_in_order

STATUSES = {"log check": 1, "log repair": 1, "log compare": 1, "log cut": 1}
"""Of commands that find something, or have a plan; with --yes they end with 0."""
LAKE, STORE = "/lake", "/data/broker-a/store"
WITHOUT_SPARK = ("land", "schemas", "iceberg", "objectstores")
"""Pages by task whose blocks tests/system/pipeline/test_pages.py runs."""


@pytest.fixture(scope="module")
def group(tmp_path_factory: pytest.TempPathFactory) -> Iterator[UpGroup]:
    found = UpGroup(tmp_path_factory.mktemp("reference"))
    try:
        yield found
    finally:
        found.end()


def pipeline_pages() -> list[str]:
    """The pipeline's page, and those by task."""
    return ["pipeline", *sorted(f"pipeline/{path.stem}" for path in (DOCS / "pipeline").glob("*.md"))]


def about(page: str, word: str) -> list[str]:
    """The blocks of a page that name a word, but for those that say that they aren't run."""
    found = [code for code in to_run(DOCS / f"{page}.md") if word in code]
    assert found, (page, word)
    return found


def line_by_line(code: str, folder: Path) -> str:
    """What the lines of a block print; each ends with the status that it should."""
    said = ""
    for line in code.splitlines():
        done = run_block(line, folder)
        expected = next((status for start, status in STATUSES.items() if f"hatwisted {start}" in line), 0)
        assert done.returncode == (0 if "--yes" in line else expected), (line, done.stdout, done.stderr)
        said += done.stdout
    return said


def test_every_block_is_one_of_those_below() -> None:
    told = {
        "client": ("hatwisted",),
        "operations": ("log check", "log compare", "hatwisted audit"),
        "tls": ("openssl",),
        "accounts": (),
        **dict.fromkeys(pipeline_pages(), ("hatwisted pipeline", "find_java_home")),
    }
    for page, words in told.items():
        left = [code for code in to_run(DOCS / f"{page}.md") if not any(word in code for word in words)]
        assert left == [], page


def test_the_commands_of_the_client_s_page(group: UpGroup) -> None:
    send, look = about("client", "hatwisted")
    said = group.run(send)
    said_in_order(
        said, ("\n1000\n", '"status":"OK"', '"body":"hi"', "open\nclose\n", "1000 stored", "1 stored")
    )
    group.level()
    assert '"problem":"' in (said := group.run(look))
    said_in_order(
        said, ("created", "Bookings", "order-77", "flushDiskType", "changed", "writable on", "equal")
    )


def test_the_commands_that_compare_a_running_pair(group: UpGroup) -> None:
    (code,) = about("operations", "hatwisted audit")
    pair = {"MASTER:10911": f"127.0.0.1:{group.master}", "SLAVE:10911": f"127.0.0.1:{group.slave}"}
    group.level()
    assert group.run(put_in(code, pair)).count(": equal") == 3


def test_the_script_that_asks_a_broker(group: UpGroup) -> None:
    text = (DOCS / "operations.md").read_text()
    found = re.search(r"^```python\n(import json, socket.*?)^```$", text, re.DOTALL | re.MULTILINE)
    assert found is not None
    words = [sys.executable, "-c", found[1], f"127.0.0.1:{group.master}"]
    for code, said in (("28", '"commitLogMaxOffset"'), ("907", '"haConnectionInfo"')):
        assert said in subprocess.run([*words, code], capture_output=True, text=True, check=True).stdout


def test_the_commands_for_a_damaged_log(tmp_path: Path) -> None:
    overwrite(golden_copy(str(tmp_path / "DIR")), 29347 + 100, b"??")
    (code,) = about("operations", "log repair")
    said = line_by_line(code, tmp_path)
    said_in_order(said, ("DAMAGE    at offset 29347", "nothing was changed", "cut: 80.4 KiB"))
    assert list((tmp_path / "DIR" / "repair").iterdir())


def test_the_commands_for_logs_that_have_diverged(tmp_path: Path) -> None:
    both = [b"order %d" % number for number in range(30)]
    write_log(tmp_path / "DIR", [*both, b"one more"])
    write_log(tmp_path / "OTHER", [*both, b"another", b"and another"])
    compare, *cut = about("operations", "log compare")[0].splitlines()
    said = line_by_line(compare, tmp_path)
    (offset,) = set(re.findall(r"--at (\d+) --yes", said))
    said_in_order(line_by_line(put_in("\n".join(cut), {"26560": offset}), tmp_path), ("2 ", "cut", "2 "))
    assert list((tmp_path / "OTHER" / "repair").iterdir())


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl isn't installed")
def test_the_commands_that_make_certificates(tmp_path: Path) -> None:
    (code,) = about("tls", "openssl")
    done = run_block(code, tmp_path)
    assert done.returncode == 0, done.stderr
    checked = run_block("openssl verify -CAfile ca.pem -verify_ip 10.0.0.1 broker-a.pem", tmp_path)
    assert checked.stdout == "broker-a.pem: OK\n", checked.stderr


@pytest.mark.timeout(1800)
@only_in_soak("Spark starts for each of them")
def test_the_commands_of_the_pipeline_s_pages(group: UpGroup) -> None:
    (store,) = group.folder.glob("*/master")
    slave = store.with_name("slave")
    for name in ("orders", "paid"):
        group.run(f"seq 300 | hatwisted produce Orders; echo '{name}' | hatwisted produce Orders")
    group.level()
    other = group.folder / "slave-2"
    subprocess.run(["cp", "-r", "--sparse=always", slave, other], check=True)
    folders = {
        STORE: store,
        f"{STORE[:-6]}-slave/store": slave,
        "/data/broker-b/store": other,
        "/data/master": store,
        "/data/slave-1": slave,
        "/data/slave-2": other,
        "/data/slave": slave,
        "/data/new": "new",
        "/tmp/rebuilt": "rebuilt",
        "/backup/orders": "backup",
        LAKE: group.folder / "lake",
        "10.0.0.1:9876": group.names,
    }
    pages = {*pipeline_pages()} - {f"pipeline/{name}" for name in WITHOUT_SPARK}
    codes = [code for page in sorted(pages) for code in to_run(DOCS / f"{page}.md")]
    lines = [line for code in codes for line in code.splitlines()]
    assert len(lines) > 15
    # What is imported is in no table and no copy of before: last.
    for line in sorted(lines, key=lambda line: "pipeline import" in line):
        group.run(put_in(line, folders))  # one after the other: each has a block's patience
    assert (group.folder / "report" / "report.html").is_file()
