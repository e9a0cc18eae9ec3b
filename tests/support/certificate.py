"""Certificates for connections with TLS."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from unittest import SkipTest


def make_certificate(folder: Path, name: str) -> None:
    """NAME.pem and NAME.key, signed by itself, for a host of that name."""
    if shutil.which("openssl") is None:
        raise SkipTest("no openssl on the PATH")
    command_line = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:prime256v1",
        "-nodes",
    ]
    command_line += ["-subj", f"/CN={name}", "-addext", f"subjectAltName=DNS:{name}", "-days", "2"]
    command_line += ["-keyout", str(folder / f"{name}.key"), "-out", str(folder / f"{name}.pem")]
    subprocess.run(command_line, check=True, capture_output=True)
