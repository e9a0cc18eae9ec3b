"""The public API's keywords: a type checker refuses what isn't one, at run time and before."""

import dataclasses
import typing
from pathlib import Path

import pytest

import hatwisted.aio
import hatwisted.client
from hatwisted.clientcore import errors
from hatwisted.clientcore.options import ConsumerKeywords, ConsumerOptions, ProducerKeywords, ProducerOptions

PROGRAM = """
from typing import Any
from hatwisted.{module} import Cluster

def program(cluster: Cluster) -> None:
    cluster.producer("x", retries=4, coalesce=True)
    cluster.producer("x", retrys=4)
    cluster.producer("x", timeout="3")
    cluster.consumer("g", {{"T": "*"}}, batch=8, orderly=True)
    cluster.consumer("g", {{"T": "*"}}, bach=8)
    cluster.transaction_producer("g", print, retrys=4)
    cluster.admin().create_group("g", retryMaxTime=4)

async def sends(cluster: Cluster) -> None:
    await cluster.producer().send("no message")
"""
REFUSED = [7, 8, 10, 11, 12, 15]
"""Lines of the program."""


@pytest.mark.parametrize("module", ["client", "aio"])
def test_mypy_refuses_options_that_do_not_exist(module: str, tmp_path: Path) -> None:
    api = pytest.importorskip("mypy.api", reason="the extra lint isn't installed")
    program = tmp_path / "program.py"
    program.write_text(PROGRAM.format(module=module))
    root = Path(__file__).parents[3]
    cache = root / ".mypy_cache"
    said, failed, _ = api.run(
        ["--config-file", str(root / "setup.cfg"), "--cache-dir", str(cache), str(program)]
    )
    told = [line.split(":")[1] for line in said.splitlines() if ": error:" in line]
    assert sorted({int(number) for number in told}) == REFUSED, said + failed


@pytest.mark.parametrize(
    ("keywords", "options"), [(ProducerKeywords, ProducerOptions), (ConsumerKeywords, ConsumerOptions)]
)
def test_keywords_and_options_are_the_same(keywords: type, options: type) -> None:
    fields = typing.get_type_hints(options)
    assert typing.get_type_hints(keywords) == fields
    assert [field.name for field in dataclasses.fields(options)] == list(fields)


@pytest.mark.parametrize("module", [hatwisted.client, hatwisted.aio])
def test_every_error_is_exported_and_a_client_error(module: typing.Any) -> None:
    kinds = {
        name
        for name, each in vars(errors).items()
        if isinstance(each, type) and issubclass(each, Exception) and each.__module__ == errors.__name__
    }
    assert kinds <= set(module.__all__)
    assert all(issubclass(getattr(module, name), module.ClientError) for name in kinds)
