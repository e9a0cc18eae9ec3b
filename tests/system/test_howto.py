"""docs/howto: every block of commands, in one folder with one group that `hatwisted up` has started."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest

from tests.support.pages import DOCS, blocks, to_run
from tests.support.upgroup import UpGroup, said_in_order

PAGES = sorted((DOCS / "howto").glob("*.md"), key=lambda path: path.stem)
SAID = {
    "slave": ("haslave --conf=", "no problems found", "ok master", "level    it has all", "SLAVE"),
    "watch": ("SYNC_MASTER", "level    it has all", "ok", 'hatwisted_ha_slave_state{state="', "monitoring"),
    "messages": ('"keys":["order-77"]', "four chairs", "order-77", "21 stored"),
    "groups": ("ledger", *["100 messages to consume"] * 2, " 0 messages to consume"),
    "land": (
        *("rows landed", "10 rows landed", "1010 messages", "celsius"),
        *("1 body didn't fit the schema (1 type)", "exit code 1", "[1, 3]", "type Expected `int`, got `str`"),
        *("keys inserted", "ann Paris", "bob Rome"),
        *("1,010 rows landed", "1015 messages, landed or not yet"),
    ),
    "audit": ("equal", "no problems found", "shorter log is a copy", "copies are identical"),
}
"""What a page's commands have to print, in this order."""


@pytest.fixture(scope="module")
def group(tmp_path_factory: pytest.TempPathFactory) -> Iterator[UpGroup]:
    found = UpGroup(tmp_path_factory.mktemp("howto"))
    try:
        yield found
    finally:
        found.end()


def test_each_page_is_expected_to_say_something() -> None:
    assert {page.stem for page in PAGES} == {*SAID, "index"}


@pytest.mark.parametrize("name", SAID)
def test_the_commands_of_a_page_do_what_it_says(group: UpGroup, name: str) -> None:
    page = DOCS / "howto" / f"{name}.md"
    if "curl" in page.read_text() and shutil.which("curl") is None:
        pytest.skip("curl isn't installed")
    assert len(to_run(page)) >= len(blocks(page)) - 1
    group.level()
    said = ""
    for code in to_run(page):
        said += group.run(code)
        group.level()
    said_in_order(said, SAID[name])
