"""A real systemd that boots in a container of its own, from this machine's files.

The container sees the machine's root folder through an overlay that is gone afterwards, and a network of its own
in which only the loopback exists. It boots in a second, and needs root and Debian's systemd-container.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from testbed.processes import REPOSITORY

SYSTEMD = Path("/lib/systemd/systemd")
PROGRAMS = ("twistd", "hatwisted")
INSTALLED = "/opt/hatwisted"
CHECKOUT = "/opt/checkout"
PYTHON = "/opt/python"
VERSION = f"python{sys.version_info[0]}.{sys.version_info[1]}"
ENVIRONMENT = f"PYTHONPATH={CHECKOUT}:{INSTALLED}/lib/{VERSION}/site-packages LD_LIBRARY_PATH={PYTHON}/lib"
"""For the units: they find the checkout, and what it needs, where their user may read."""
SECONDS = 240.0
"""Boot, story and end; the story itself takes 15 s."""

STORY_UNIT = f"""[Unit]
After=basic.target
[Service]
Type=oneshot
TimeoutStartSec={SECONDS:.0f}
Environment=PATH={INSTALLED}/bin:/usr/bin:/bin:/usr/sbin:/sbin {ENVIRONMENT} HOME=/root
WorkingDirectory=/told
ExecStart=/bin/bash -Eex /told/story.sh
StandardOutput=append:/told/out.txt
StandardError=append:/told/out.txt
ExecStopPost=/bin/systemctl --no-block poweroff
"""


def why_not() -> str | None:
    """What keeps it from running here; None: nothing."""
    if os.geteuid() != 0:
        return "a container needs root"
    missing = [name for name in ("systemd-nspawn", "unshare") if shutil.which(name) is None]
    if missing or not SYSTEMD.exists():
        return "needs systemd and systemd-nspawn (Debian: systemd-container)"
    return None


def run_story(folder: Path, story: str, files: Mapping[str, str]) -> str:
    """Boot, run `story`, power off; what it has printed. It may write into /told, which is `folder`.

    - folder: for what it reads and writes
    - story: for bash, as root
    - files: name -> text, in /told, too
    """
    told, root = folder / "told", folder / "root"
    for each in (told, root):
        each.mkdir()
    # What went wrong is in the journal, which ends with the container.
    story = f"trap 'journalctl --no-pager --lines=100 --output=cat' ERR\n{story}"
    for name, text in {"story.sh": story, "story.service": STORY_UNIT, **files}.items():
        (told / name).write_text(text)
    # Interpreter and venv may lie where the units' user doesn't come, and so may the paths in the venv.
    environment = Path(sys.executable).parents[1]
    binds = [
        f"--bind-ro={sys.base_prefix}:{PYTHON}",
        f"--bind-ro={environment}:{INSTALLED}",
        f"--bind-ro={REPOSITORY}:{CHECKOUT}",
        f"--bind={told}:/told",
        f"--bind-ro={told}/story.service:/run/systemd/system/story.service",
    ]
    for program in PROGRAMS:
        moved = folder / program
        code = (environment / "bin" / program).read_text().partition("\n")[2]
        moved.write_text(f"#!{PYTHON}/bin/{VERSION}\n{code}")
        moved.chmod(0o755)
        binds.append(f"--bind-ro={moved}:{INSTALLED}/bin/{program}")
    words = [
        "systemd-nspawn", "--quiet", f"--directory={root}", "--volatile=overlay", "--boot", "--register=no",
        "--keep-unit", "--private-network", f"--machine=hatwisted-{os.getpid()}", "--console=pipe", *binds,
        "--", "--unit=story.service",
    ]  # fmt: skip
    # nspawn doesn't take / itself; the mount is of this process alone.
    script = f'mount --bind / "{root}" && exec "$@"'
    done = subprocess.run(
        ["unshare", "--mount", "--propagation=slave", "sh", "-c", script, "sh", *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        timeout=SECONDS,
    )
    out = told / "out.txt"
    text = out.read_text(errors="replace") if out.exists() else ""
    assert (told / "done").exists(), f"{text}\n--- console:\n{done.stdout[-3000:]}"
    return text
