"""What each shell offers after TAB, asked of the shell itself: its own words about ours, by our script for it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPTS = {
    "bash": """
        eval "$(_HATWISTED_COMPLETE=bash_source hatwisted)"
        COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
        _hatwisted_completion hatwisted "${!#}" ""
        printf '%s\\n' "${COMPREPLY[@]}"
    """,
    # The widgets of its line editor, without a line editor: what is handed to them is printed.
    "zsh": """
        autoload -U compinit; compinit -D
        _describe() { print -l -- ${(P)3} }
        compadd() { print -l -- ${(P)argv[-1]} }
        eval "$(_HATWISTED_COMPLETE=zsh_source hatwisted)"
        words=("$@"); CURRENT=$#
        _hatwisted_completion
    """,
    "fish": """
        _HATWISTED_COMPLETE=fish_source hatwisted | source
        complete -C "$argv"
    """,
}


def offered(shell: str, *typed: str) -> set[str]:
    """The words that it offers for the last one."""
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"there is no {shell} here")
    words = [program, "-c", SCRIPTS[shell], *(() if shell == "fish" else (shell,)), "hatwisted", *typed]
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    nobody = {"NAMESRV_ADDR": "127.0.0.1:1", "PATH": path, "HOME": os.environ.get("HOME", "/")}
    done = subprocess.run(words, env={**os.environ, **nobody}, capture_output=True, text=True, timeout=120)
    assert done.stderr == "", done.stderr
    # zsh has the help after a colon, fish after a tab.
    return {line.split("\t")[0].split(":")[0].strip() for line in done.stdout.splitlines() if line.strip()}


@pytest.mark.parametrize("shell", SCRIPTS)
def test_commands_and_options_are_offered(shell: str) -> None:
    assert offered(shell, "pro") == {"produce"}
    assert offered(shell, "group", "cl") == {"clone"}
    assert {"--offset", "--orderly"} <= offered(shell, "consume", "T", "--o")
    assert offered(shell, "broker", "writable", "b", "o") == {"on", "off"}
