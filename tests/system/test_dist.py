"""The archives of `make dist`, and what is installed of them: package, commands, twistd plugins, samples, demo."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
import tarfile
import venv
import zipfile
from importlib import metadata
from pathlib import Path

import pytest

import tests.system.test_readme as readme
from testbed.processes import (
    BROKER_PORTS,
    REPOSITORY,
    ServerProcess,
    all_stopped,
    broker_answers,
    free_port,
    namesrv_answers,
    wait_until,
)
from tests.support.clusterclient import route_of
from tests.support.pages import put_in, run_block, to_run
from tests.support.soak import only_in_soak, times
from tests.support.tutorial import TUTORIAL, stop_slave

# Nothing of this checkout may be found by a program that runs in the fresh venv.
OUTSIDE = {"PYTHONPATH": ""}
COMPILED = {} if times(1) > 1 else {"CFLAGS": "-O0"}
"""The soak's as anybody's; else without optimization, which is most of a build's time."""
SECONDS = 120.0
MOST_MEGABYTES = 200
"""Of an environment with the server alone."""
NEW_ENVIRONMENT = 30
"""Megabytes of one that has pip and nothing else."""


def built(checkout: Path, folder: Path) -> dict[str, bytes]:
    """Name and bytes of what tools/dist.py of a checkout makes."""
    command = [sys.executable, checkout / "tools" / "dist.py", folder]
    done = subprocess.run(
        command,
        cwd=checkout,
        env=os.environ | COMPILED,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert done.returncode == 0, done.stdout
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("dist")


@pytest.fixture(scope="module")
def archives(folder: Path) -> dict[str, bytes]:
    return built(REPOSITORY, folder / "dist")


@pytest.fixture(scope="module")
def sdist(folder: Path, archives: dict[str, bytes]) -> Path:
    """The unpacked sdist."""
    (name,) = (name for name in archives if name.endswith(".tar.gz"))
    with tarfile.open(folder / "dist" / name) as archive:
        archive.extractall(folder / "elsewhere", filter="data")
    return folder / "elsewhere" / name.removesuffix(".tar.gz")


@pytest.fixture(scope="module")
def python(folder: Path, archives: dict[str, bytes]) -> Path:
    """The interpreter of a fresh venv with the wheel installed, its dependencies borrowed from this one."""
    venv.create(folder / "venv", symlinks=True)
    python = folder / "venv" / "bin" / "python"
    site = next((folder / "venv" / "lib").glob("python*/site-packages"))
    # Not through --system-site-packages: .pth files reached through a .pth file don't count, so the editable
    # install of this checkout stays invisible.
    (site / "borrowed.pth").write_text("\n".join(p for p in sys.path if p.endswith("site-packages")))
    (wheel,) = (name for name in archives if name.endswith(".whl"))
    pip = [sys.executable, "-m", "pip", "--python", python]
    install = ["install", "--quiet", "--no-deps", "--no-index", folder / "dist" / wheel]
    subprocess.run([*pip, *install], check=True, cwd=folder, env={**os.environ, **OUTSIDE})
    # Twisted's own command, as pip would have written it here.
    borrowed = Path(sys.executable).with_name("twistd").read_text()
    twistd = python.with_name("twistd")
    twistd.write_text(f"#!{python}\n{borrowed.partition(chr(10))[2]}")
    twistd.chmod(0o755)
    return python


def run(python: Path, *arguments: str) -> str:
    """Standard output, from a folder that is no checkout."""
    command = [str(python), "-I", *arguments]
    return subprocess.run(command, cwd=python.parent, capture_output=True, text=True, check=True).stdout


@only_in_soak("compiles the kernel twice more")
def test_built_again_elsewhere_they_have_the_same_bytes(
    archives: dict[str, bytes], sdist: Path, folder: Path
) -> None:
    for path in sdist.rglob("*.py"):
        os.utime(path)
        path.chmod(0o600)
    again = built(sdist, folder / "again")
    assert list(again) == list(archives)
    assert [name for name in archives if again[name] != archives[name]] == []


def test_the_wheel_is_for_every_linux_of_its_age(archives: dict[str, bytes]) -> None:
    """Compiled, it asks for an old C library alone; where no compiler was, it's for any system."""
    (name,) = (name for name in archives if name.endswith(".whl"))
    compiled = any(".so" in each for each in zipfile.ZipFile(io.BytesIO(archives[name])).namelist())
    if sys.platform.startswith("linux"):
        assert ("manylinux_2_" in name) == compiled
    assert name.endswith("-any.whl") != compiled


def test_the_sdist_holds_what_git_tracks(sdist: Path) -> None:
    listed = subprocess.run(
        ["git", "-C", str(REPOSITORY), "ls-files", "-z"], capture_output=True, text=True, check=False
    )
    if listed.returncode:
        pytest.skip("this checkout isn't a git work tree: nothing to compare the sdist with")
    tracked = set(listed.stdout.rstrip("\0").split("\0"))
    missing = {name for name in tracked if (REPOSITORY / name).exists() and not (sdist / name).exists()}
    assert missing == set()


def test_the_installed_package_is_the_one_that_is_found(python: Path) -> None:
    where = run(python, "-c", "import hatwisted; print(hatwisted.__file__)")
    assert Path(where.strip()).is_relative_to(python.parents[1])


def test_its_types_are_for_others_too(python: Path) -> None:
    (marker,) = python.parents[1].glob("lib/python*/site-packages/hatwisted/py.typed")
    assert marker.is_file()


def test_each_python_of_it_waits_for_spark(python: Path) -> None:
    """To say which one it is (hatwisted/sparkstart.py)."""
    shown = run(
        python, "-c", "import sys; print(sys.meta_path[0].__module__, 'hatwisted.pipeline' in sys.modules)"
    )
    assert shown.split() == ["hatwisted.sparkstart", "False"]


@pytest.mark.parametrize("program", ["hamaster", "haslave", "hanamesrv"])
def test_twistd_finds_the_plugins(python: Path, program: str) -> None:
    shown = run(python, str(python.with_name("twistd")), program, "--help")
    assert "RocketMQ-compatible" in shown and "--conf" in shown


def test_the_console_script(python: Path) -> None:
    shown = run(python, str(python.with_name("hatwisted")), "--help")
    assert "log" in shown


def test_a_name_server_and_a_master_with_an_installed_sample(python: Path, tmp_path: Path) -> None:
    samples = python.parents[1] / "share" / "hatwisted" / "conf"
    shipped = {path.relative_to(REPOSITORY / "conf") for path in (REPOSITORY / "conf").rglob("*.*")}
    assert {path.relative_to(samples) for path in samples.rglob("*.*")} == shipped

    def server(name: str, port: int, *options: str) -> ServerProcess:
        return ServerProcess(
            name=name,
            argv=[
                str(python.with_name("twistd")),
                "-n",
                "--pidfile=",
                name,
                *options,
                f"--set=listenPort={port}",
            ],
            folder=tmp_path / name,
            port=port,
            probe=namesrv_answers if name == "hanamesrv" else broker_answers,
            environment={**OUTSIDE, "HOME": str(tmp_path / name)},
        )

    namesrv = server("hanamesrv", free_port(), "--set=bindAddress=127.0.0.1")
    master = server(
        "hamaster",
        free_port(BROKER_PORTS),
        f"--conf={samples / '2m-2s-sync' / 'broker-a.properties'}",
        f"--namesrv=127.0.0.1:{namesrv.port}",
        "--set=bindAddress=127.0.0.1",
        "--set=brokerIP1=127.0.0.1",
        "--set=mappedFileSizeCommitLog=8388608",
    )
    with all_stopped(namesrv, master):
        namesrv.start()
        master.start()
        wait_until(lambda: route_of(namesrv.port, "TBW102"), SECONDS, "the master is registered")
        shown = run(
            python, str(python.with_name("hatwisted")), "cluster", "list", "-n", f"127.0.0.1:{namesrv.port}"
        )
        assert "broker-a" in shown
        master.stop()
        namesrv.stop()


def test_readme_and_tutorial_run_from_it(python: Path, tmp_path: Path) -> None:
    samples = python.parents[1] / "share" / "hatwisted" / "conf"
    program = {"PATH": f"{python.parent}:{os.environ['PATH']}", "HOME": str(tmp_path), **OUTSIDE}
    ports = {
        "hanamesrv": free_port(),
        "hamaster": free_port(BROKER_PORTS),
        "haslave": free_port(BROKER_PORTS),
    }
    names = f"127.0.0.1:{ports['hanamesrv']}"
    shown = {
        "127.0.0.1:9876": names,
        "10921": ports["haslave"],
        "conf/2m-2s-sync": samples / "2m-2s-sync",
        "$HOME": tmp_path,
    }
    servers = []
    for words in readme.commands():
        name, options = words[3], put_in(" ".join(words[1:]), shown).split()
        broker = name != "hanamesrv"
        more = readme.SMALL if broker else ["--set", "bindAddress=127.0.0.1"]
        servers.append(
            ServerProcess(
                name=name,
                argv=[str(python.with_name("twistd")), *options, *more, "--set", f"listenPort={ports[name]}"],
                folder=tmp_path / name,
                port=ports[name],
                probe=broker_answers if broker else namesrv_answers,
                environment=program,
            )
        )
    shown = {"namesrv:9876": names, "--dir copy": f"--dir copy --port {free_port(BROKER_PORTS)}"}
    with all_stopped(*servers):
        for each in servers:
            each.start()
        try:
            for code in (
                f"until seq 100 | hatwisted produce T -n {names}; do sleep 0.2; done",
                *to_run(TUTORIAL),
            ):
                done = run_block(put_in(code, shown), tmp_path, program)
                assert done.returncode == 0, (code, done.stdout, done.stderr)
        finally:
            stop_slave(tmp_path)
        for each in reversed(servers):
            each.stop()


def test_a_server_s_install_stays_small() -> None:
    """All that `pip install hatwisted` brings, with what a new environment has by itself."""
    wanted, found = ["hatwisted"], set[str]()
    while wanted:
        name = re.split(r"[^A-Za-z0-9._-]", wanted.pop())[0].lower().replace("_", "-")
        if name in found:
            continue
        found.add(name)
        # What only an extra or another system asks for has a marker.
        wanted += [each for each in metadata.requires(name) or [] if ";" not in each]
    files = [file.locate() for name in found for file in metadata.files(name) or []]
    size = sum(Path(file).stat().st_size for file in files if Path(file).is_file())
    assert {"twisted", "numpy", "cryptography", "isal"} <= found
    assert size < (MOST_MEGABYTES - NEW_ENVIRONMENT) * 1_000_000, f"{size} bytes"


@only_in_soak("asks a package index")
def test_it_installs_into_an_empty_environment(
    folder: Path, archives: dict[str, bytes], tmp_path: Path
) -> None:
    venv.create(tmp_path / "venv", with_pip=True)
    (wheel,) = (name for name in archives if name.endswith(".whl"))
    python = tmp_path / "venv" / "bin" / "python"
    environment = {**os.environ, **OUTSIDE, "PIP_CONSTRAINT": str(REPOSITORY / "constraints.txt")}
    install = [python, "-m", "pip", "install", "--quiet", folder / "dist" / wheel]
    subprocess.run(install, check=True, cwd=tmp_path, env=environment)
    size = sum(path.lstat().st_size for path in (tmp_path / "venv").rglob("*"))
    assert size < MOST_MEGABYTES * 1_000_000, f"{size} bytes"
    assert "serves" in run(python, str(python.with_name("twistd")), "haslave", "--help")
    assert "compiled" in run(python, "-m", "hatwisted.kernel")


def test_the_demo_has_its_input_with_it(python: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [python, "-m", "hatwisted.demo", "--once", "--no-pipeline", "--seconds=0"],
        cwd=tmp_path,
        env={**os.environ, **OUTSIDE},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert done.returncode == 0, done.stdout
    assert "read back from the slave: 229 messages" in done.stdout
