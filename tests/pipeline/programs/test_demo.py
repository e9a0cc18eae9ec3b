"""`make run`, the data pipeline included."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.demoprogram import demo, finished
from tests.support.soak import only_in_soak


@only_in_soak("a minute, and the jobs are tried one by one")
@pytest.mark.usefixtures("java")
def test_it_is_landed_audited_and_reported(tmp_path: Path) -> None:
    pytest.importorskip("deltalake")
    status, output = finished(demo(tmp_path, "--once", "--seconds=2"))
    assert status == 0, output
    sent = re.search(r"traffic: ([\d,]+) messages", output)
    assert sent is not None and int(sent[1].replace(",", "")) > 500, output
    assert f"landed from the slave's files: {sent[1]} rows" in output
    assert "3 copies are identical from 0 to" in output
    page = Path(output.partition("report: ")[2].partition("\n")[0])
    assert page.read_text().startswith("<!doctype html>")
