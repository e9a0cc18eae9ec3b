"""Queues and index rebuilt from the log of a broker that has just stopped are the files it had itself."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("pyarrow", reason='the pipeline isn\'t installed: pip install "hatwisted[pipeline]"')

from hatwisted.pipeline.jobs.audit.auditing import AuditOptions, audit
from hatwisted.pipeline.jobs.reindex.reindexing import ReindexOptions, reindex
from hatwisted.pipeline.jobs.workertasks import InlineTasks
from testbed.brokergroup import JAVA, OURS, BrokerGroup, Kind
from testbed.processes import wait_until
from testbed.remotingclient import SEND_MESSAGE_V2, RemotingClient, send_fields
from tests.interop.conftest import needs
from tests.support.producer import Producer

SOME = 1500  # of the producer's messages some 2.5 MB of log: more than two files
DELAYED = 5
END_TRANSACTION, PREPARED, COMMIT, ROLLBACK = 37, "4", "8", "12"


def send_transactions(client: RemotingClient) -> None:
    """One transaction that is committed and one that is rolled back."""
    for outcome in (COMMIT, ROLLBACK):
        properties = {"TRAN_MSG": "true", "PGROUP": "group", "UNIQ_KEY": f"{outcome:0>32}", "KEYS": "tx"}
        fields = send_fields("Tx", 0, properties) | {"f": PREPARED}
        sent = client.call(SEND_MESSAGE_V2, fields, b"transaction").expect(0)
        end = {
            "producerGroup": "group",
            "tranStateTableOffset": sent.ext["queueOffset"],
            "commitLogOffset": str(int(sent.ext["msgId"][-16:], 16)),
            "commitOrRollback": outcome,
            "fromTransactionCheck": "false",
            "msgId": properties["UNIQ_KEY"],
            "transactionId": properties["UNIQ_KEY"],
        }
        client.call(END_TRANSACTION, end).expect(0)


def send_delayed(client: RemotingClient) -> None:
    """Delayed messages, and the wait for the last one's delivery."""
    for number in range(DELAYED):
        level = str(1 + number % 2 * 15)
        assert (
            client.send("Delayed", b"later", 0, {"DELAY": level, "TAGS": "d", "KEYS": f"d{number}"}).code == 0
        )
    due = (DELAYED + 1) // 2
    wait_until(lambda: client.max_queue_offset("Delayed", 0) == due, 60.0, "delayed messages are delivered")


def files_of(folder: Path) -> dict[str, bytes]:
    """Content of every file below a folder."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def assert_rebuilt(store: Path, target: Path) -> None:
    """A rebuild from the log alone gives the store's own files."""
    result = reindex(InlineTasks(), str(store), str(target), ReindexOptions(split_bytes=300_000))
    assert (result.damaged, result.refused, result.carried_over) == ((), 0, 0)
    built, own = files_of(target / "consumequeue"), files_of(store / "consumequeue")
    assert sorted(built) == sorted(own)
    assert [name for name in own if built[name] != own[name]] == []
    indexes = [[data for _, data in sorted(files_of(each / "index").items())] for each in (target, store)]
    assert len(indexes[0]) == len(indexes[1])
    assert indexes[0] == indexes[1]


@pytest.mark.parametrize("kind", [JAVA, OURS], ids=lambda kind: kind.value)
def test_a_brokers_queues_and_index_follow_from_its_log(kind: Kind, tmp_path: Path) -> None:
    needs(kind)
    with BrokerGroup(tmp_path, kind, kind, role="ASYNC_MASTER") as group:
        group.master.start()
        with group.master_client() as client, Producer(group.master_port) as producer:
            producer.wait_acked(SOME)
            send_transactions(client)
            # The slave begins with the master's last file: its queues begin in mid-stream.
            group.slave.start()
            send_delayed(client)
            producer.wait_acked(SOME // 3)
        group.wait_caught_up()
        group.stop()
    for side in (group.master_store, group.slave_store):
        assert_rebuilt(side, tmp_path / f"{side.name}-rebuilt")
    found = audit(
        InlineTasks(),
        [str(group.master_store), str(group.slave_store)],
        options=AuditOptions(split_bytes=300_000),
    )
    assert found.identical, found.verdict
    assert len(found.notes) == 1
    assert "isn't retained there" in found.notes[0]
