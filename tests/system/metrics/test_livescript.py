"""The live page's script, run by Node.js on a page of its own making."""

from __future__ import annotations

import json
import shutil
import subprocess

import pytest

from hatwisted.metrics.livepage import source

pytestmark = pytest.mark.skipif(shutil.which("node") is None, reason="needs Node.js")

PAGE = """
const found = {};
function element() {
  return { innerHTML: "", hidden: true, listeners: {}, setAttribute() {},
           addEventListener(name, listener) { this.listeners[name] = listener; } };
}
globalThis.document = { addEventListener() {}, getElementById: (name) => (found[name] ??= element()) };
globalThis.setInterval = () => {};
let stream;
globalThis.EventSource = class {
  constructor() { this.listeners = {}; stream = this; }
  addEventListener(name, listener) { this.listeners[name] = listener; }
};
const comes = (part, text) => stream.listeners[part]({ data: JSON.stringify(text) });
const press = () => found.pause.listeners.click();
const shown = () => ["state", "hour", "events"].map((part) => document.getElementById(part).innerHTML);
"""


def seen(story: str) -> list[list[str]]:
    """What the parts show whenever the story says `look()`."""
    script = "\n".join(
        [PAGE, source("live.js"), "const looks = [], look = () => looks.push(shown());", story,
         "console.log(JSON.stringify(looks));"]
    )  # fmt: skip
    done = subprocess.run(["node", "-"], input=script, capture_output=True, text=True, check=True, timeout=60)
    found: list[list[str]] = json.loads(done.stdout)
    return found


def test_what_came_during_a_pause_is_shown_after_it() -> None:
    story = """
      comes("state", "s1"); comes("events", "e1"); look();
      press(); comes("events", "e2"); comes("state", "s2"); comes("state", "s3"); look();
      press(); look();
      comes("state", "s4"); look();
    """
    assert seen(story) == [["s1", "", "e1"], ["s1", "", "e1"], ["s3", "", "e2"], ["s4", "", "e2"]]
