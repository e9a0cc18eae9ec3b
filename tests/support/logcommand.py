"""`hatwisted log ...` in the process of a test that holds stores of real brokers."""

from __future__ import annotations

import json
from typing import Any

from click.testing import CliRunner

from hatwisted.cli.main import main


def log_command(status: int, *arguments: object) -> dict[str, Any]:
    """What it says as JSON; it must end with this status."""
    result = CliRunner().invoke(main, ["log", *map(str, arguments), "--json"])
    assert result.exit_code == status, result.output
    found: dict[str, Any] = json.loads(result.stdout)
    return found
