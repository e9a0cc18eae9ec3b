"""The programs of the pipeline's pages, as they stand there: a page's blocks one after the other, over a group's
topics and copies of its stores."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import NamedTuple

import pytest

pytest.importorskip("pyspark", reason='Spark isn\'t installed: pip install "hatwisted[pipeline]"')
pytest.importorskip("google.protobuf", reason='protobuf isn\'t installed: pip install "hatwisted[schemas]"')

from google.protobuf import descriptor_pb2
from pyspark.sql import SparkSession

from hatwisted.pipeline.decode.logreader import read_arrow
from testbed.brokergroup import OURS, BrokerGroup
from tests.support.pages import DOCS, to_run
from tests.support.soak import in_soak

pytestmark = pytest.mark.timeout(1_800)
ORDERS, PAYMENTS = 30, 12
PAID = 10
"""Of the orders."""
SCHEMA = {
    "type": "object",
    "properties": {"customer": {"type": "string"}, "amount": {"type": "integer"}},
    "required": ["customer"],
}
SAYS = {
    "pipeline": ("Orders", str(ORDERS)),
    "files": ("Orders", str(2 * PAID), "{rows} messages", "reason", "Payments", str(PAID)),
    "topics": ("Payments", "broker-a", "maxOffsetsBehindLatest"),
    "write": ("",),
    "land": ("{rows} (2,)",),
    "schemas": ("{rows} {{}}",),
    "union": ("Orders", "queue_offset"),
    "latest": ("keys are new, 0 have another message now",),
    "audit": ("True",),
    "report": ("report.html",),
}
"""What the programs of a page print, in this order."""
LONG = ("files", "report")
"""Those that `make soak` alone tries."""
ASK = ("union", "latest", "audit")
"""Pages that ask the tables that the page on landing makes."""


def programs(page: str) -> list[str]:
    """A page's blocks of Python, but for those that another test runs, or that say why none does."""
    return to_run(DOCS / "pipeline.md" if page == "pipeline" else DOCS / "pipeline" / f"{page}.md", "python")


class Copied(NamedTuple):
    """group: running; master, slave: copies of their stores before a page wrote anything; rows: messages there."""

    group: BrokerGroup
    master: Path
    slave: Path
    rows: int


@pytest.fixture(scope="module")
def copied(java: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Copied]:
    folder = tmp_path_factory.mktemp("cluster")
    with BrokerGroup(folder, namesrv_kind=OURS) as running:
        running.start()
        with running.master_client() as client:
            for number in range(ORDERS):
                body = json.dumps({"customer": f"c{number % 4}", "amount": number}).encode()
                tag = "paid" if number < PAID else "new"
                client.send("Orders", body, number % 4, {"KEYS": f"k{number % 7}", "TAGS": tag})
            for number in range(PAYMENTS):
                client.send("Payments", b"\x0a\x02c%d" % (number % 4), 0, {"KEYS": f"p{number}"})
                client.send("Customers", b"{}", 0, {"KEYS": f"c{number % 4}"})
        running.wait_caught_up()
        master = shutil.copytree(running.master_store, folder / "master")
        slave = shutil.copytree(running.slave_store, folder / "slave")
        yield Copied(running, master, slave, read_arrow(str(master), ["size"]).read_all().num_rows)


def world_in(folder: Path, copied: Copied) -> Path:
    """A folder with what the pages name: stores, files with schemas, rows to be written."""
    for name in ("broker-a/store", "broker-b/store", "master"):
        shutil.copytree(copied.master, folder / "data" / name)
    for name in ("slave", "slave-1"):
        shutil.copytree(copied.slave, folder / "data" / name)
    (folder / "lake" / "payments").mkdir(parents=True)
    rows = [json.dumps({"customer": f"c{number}", "amount": 10 * number}) for number in range(5)]
    (folder / "lake" / "payments" / "first.json").write_text("\n".join(rows))
    (folder / "orders.json").write_text(json.dumps(SCHEMA))
    message = descriptor_pb2.DescriptorProto(name="Payment")
    message.field.add(name="customer", number=1, type=9, label=1)
    shop = descriptor_pb2.FileDescriptorProto(name="shop.proto", package="shop", message_type=[message])
    (folder / "shop.desc").write_bytes(descriptor_pb2.FileDescriptorSet(file=[shop]).SerializeToString())
    return folder


@pytest.fixture(scope="module")
def landed(spark: SparkSession, copied: Copied, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A world after the page on landing, and what that said."""
    world = world_in(tmp_path_factory.mktemp("landed"), copied)
    return world, run("land", world, copied)


def run(page: str, world: Path, copied: Copied) -> str:
    """What a page's programs print."""
    space: dict[str, object] = {"__name__": page}
    said = StringIO()
    with redirect_stdout(said):
        for code in programs(page):
            for folder in ("data", "lake"):
                code = code.replace(f'"/{folder}/', f'"{world}/{folder}/')
            code = re.sub(r"10\.0\.0\.\d:9876", f"127.0.0.1:{copied.group.namesrv_port}", code)
            exec(compile(code, page, "exec", dont_inherit=True), space)
    return said.getvalue()


def test_every_page_with_a_program_is_one_of_those_below() -> None:
    pages = ["pipeline", *(path.stem for path in (DOCS / "pipeline").glob("*.md"))]
    assert {page for page in pages if programs(page)} == SAYS.keys()


@pytest.mark.parametrize(
    "page",
    [
        in_soak(page, why="half a minute or more of Spark") if page in LONG else page
        for page in sorted(SAYS.keys() - {"land", *ASK})
    ],
)
def test_the_programs_of_the_page(
    spark: SparkSession, copied: Copied, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, page: str
) -> None:
    monkeypatch.chdir(tmp_path)
    says(page, run(page, world_in(tmp_path, copied), copied), copied)


def test_those_of_the_page_on_landing(landed: tuple[Path, str], copied: Copied) -> None:
    says("land", landed[1], copied)


@pytest.mark.parametrize("page", ASK)
def test_those_that_ask_its_tables(landed: tuple[Path, str], copied: Copied, page: str) -> None:
    says(page, run(page, landed[0], copied), copied)


def says(page: str, said: str, copied: Copied) -> None:
    at = 0
    for text in (text.format(rows=copied.rows) for text in SAYS[page]):
        assert text in said[at:], said
        at = said.index(text, at) + len(text)
