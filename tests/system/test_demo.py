"""`make run`, as `python -m hatwisted.demo`."""

from __future__ import annotations

import signal
from pathlib import Path

from hatwisted.store.disk.filesystem import PosixFileSystem
from testbed.processes import wait_until
from tests.support.demoprogram import demo, finished


def test_the_golden_store_is_replicated_and_read_back(tmp_path: Path) -> None:
    status, output = finished(demo(tmp_path, "--once", "--no-pipeline", "--seconds=0"))
    assert status == 0, output
    assert "229 messages" in output
    assert "byte-identical" in output
    assert "read back from the slave: 229 messages" in output
    assert "report" not in output
    assert not (tmp_path / "var" / "demo" / "master" / "store" / "abort").exists()


def test_without_the_data_pipeline_the_rest_is_done_and_it_is_said(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import sys; sys.modules['pyspark'] = None\n")
    status, output = finished(demo(tmp_path, "--once", "--seconds=0", path=tmp_path))
    assert status == 0, output
    assert "read back from the slave: 229 messages" in output
    assert "pip install 'hatwisted[pipeline]'" in output
    assert "report:" not in output


def test_a_text_file_and_ctrl_c(tmp_path: Path) -> None:
    text = tmp_path / "words.txt"
    text.write_text("".join(f"line {number}\n" for number in range(1000)))
    process = demo(tmp_path, "--no-pipeline", "--input", str(text))
    assert process.stdout is not None
    seen = []
    for line in process.stdout:
        seen.append(line)
        if "everything keeps running" in line:
            break
    pids = [int(line.partition("pid ")[2].partition(",")[0]) for line in seen if "pid " in line]
    assert len(pids) == 3, "".join(seen)
    assert all(Path(f"/proc/{pid}").exists() for pid in pids)

    process.send_signal(signal.SIGINT)
    status, _ = finished(process)
    assert status == 0
    assert any("1,000 messages" in line for line in seen)
    wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids), 60, "all three have ended")


def test_an_input_that_isnt_there(tmp_path: Path) -> None:
    status, output = finished(demo(tmp_path, "--once", "--input", "nowhere.txt"))
    assert (status, output) == (1, "Error: nowhere.txt: can't be read: No such file or directory\n")


def test_an_input_without_a_message_proves_nothing(tmp_path: Path) -> None:
    empty = tmp_path / "empty.txt"
    empty.write_text("\n\n")
    status, output = finished(demo(tmp_path, "--once", "--input", str(empty)))
    assert status == 1
    assert f"✗ {empty} contains no message, so there's nothing to check" in output
    assert "byte-identical" not in output


def test_a_second_run_leaves_the_first_alone(tmp_path: Path) -> None:
    folder = tmp_path / "var"
    folder.mkdir()
    lock = PosixFileSystem().lock(str(folder / "demo.lock"))
    try:
        status, output = finished(demo(tmp_path, "--once"))
    finally:
        lock.release()
    assert status == 1
    assert "another run uses this folder, stop that one first" in output
    assert output.count("\n") == 1
