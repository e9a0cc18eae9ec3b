"""`hatwisted cluster`: the brokers and how they are.

A broker's own word about its copy (907) is RocketMQ 5's and ours; of RocketMQ 4's the ends of the two logs tell
the lag, and that it answers is all that is known of its state.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterable, Sequence
from typing import Any, Final

import click

from hatwisted.cli.cluster.clusterrun import Interrupt, cluster_options, run
from hatwisted.cli.errors import EXIT_OK, EXIT_PROBLEMS
from hatwisted.cli.optiongroup import Group
from hatwisted.cli.output import json_option, show
from hatwisted.client.cluster import Cluster
from hatwisted.clientcore.errors import ClientError
from hatwisted.wire.printable import printable
from hatwisted.wire.quantities import size_text
from hatwisted.wire.registration import MASTER_ID, BrokerData

WIDE: Final = 110
"""Columns of a terminal that has room for cluster and version as well."""
COPYING: Final = ("transfer", "TRANSFER")
"""States of a slave that is well, as ours and RocketMQ 5's say it."""


@click.group(cls=Group)
def cluster() -> None:
    """Show the brokers of a cluster, and how they are."""


@cluster.command("list")
@cluster_options
@json_option
def list_command(namesrv: str, as_json: bool) -> None:
    """List all brokers, with role, state, lag and rates.

    Exit codes: 0 all are well; 1 some didn't answer, a slave isn't copying, a group has no master, or there is no
    broker; 2 usage error, or no name server.
    """

    async def work(link: Cluster, _: Interrupt) -> int:
        info = await link.admin().cluster_info()
        groups = sorted(info.broker_addr_table.values(), key=lambda each: (each.cluster, each.broker_name))
        found = await _brokers(link, groups)
        columns, rows = _table(found)
        show(as_json, found, columns, rows)
        if not as_json:
            for line in _problems(found, groups):
                click.echo(printable(line), err=True)
        whole = found and all(MASTER_ID in each.broker_addrs for each in groups)
        return EXIT_OK if whole and not any(each["problem"] for each in found) else EXIT_PROBLEMS

    sys.exit(run(namesrv, work))


def _table(found: Sequence[dict[str, Any]]) -> tuple[list[str], list[list[object]]]:
    columns = ["broker", "id", "role", "address", "state", "lag", "puts/s"]
    rows: list[list[object]] = [
        [each["broker"], each["id"], each["role"], each["address"], each["state"], _lag(each), _rate(each)]
        for each in found
    ]
    if shutil.get_terminal_size().columns >= WIDE:
        columns += ["version", "cluster"]
        for row, each in zip(rows, found, strict=True):
            row += [each.get("hatwisted") or each.get("version", ""), each["cluster"]]
    return columns, rows


def _lag(broker: dict[str, Any]) -> str:
    return size_text(broker["lag"]) if "lag" in broker else ""


def _rate(broker: dict[str, Any]) -> str:
    return f"{broker['putTps']:.0f}" if "putTps" in broker else ""


def _problems(found: Sequence[dict[str, Any]], groups: Iterable[BrokerData]) -> list[str]:
    lines = [f"{each['broker']} {each['id']}: {each['problem']}" for each in found if each["problem"]]
    for group in groups:
        if MASTER_ID not in group.broker_addrs:
            lines.append(f"{group.broker_name}: has no master: nothing can be sent to it")
    return lines or ([] if found else ["the name servers know no broker"])


async def _brokers(link: Cluster, groups: Iterable[BrokerData]) -> list[dict[str, Any]]:
    """What each says. All are asked at once: the silent ones together cost one timeout."""
    from twisted.internet.defer import Deferred, gatherResults

    brokers: list[dict[str, Any]] = [
        {"cluster": group.cluster, "broker": group.broker_name, "id": int(number), "address": address}
        for group in groups
        for number, address in sorted(group.broker_addrs.items(), key=lambda each: int(each[0]))
    ]
    states = [Deferred.fromCoroutine(_state(link, each)) for each in brokers]
    found: list[dict[str, Any]] = [
        each | state for each, state in zip(brokers, await gatherResults(states), strict=True)
    ]
    ends = {each["broker"]: each["logEnd"] for each in found if each["role"] == "master" and "logEnd" in each}
    for each in found:
        if each["role"] == "slave" and "logEnd" in each and each["broker"] in ends:
            each["lag"] = max(0, ends[each["broker"]] - each["logEnd"])
    return found


async def _state(link: Cluster, broker: dict[str, Any]) -> dict[str, Any]:
    """A broker's figures; problem: why it isn't well, empty if it is."""
    role = "slave" if broker["id"] else "master"
    try:
        info = await link.admin().broker_info(broker["address"])
    except ClientError as error:
        return {"role": role, "state": "no answer", "problem": str(error), "error": str(error)}
    found: dict[str, Any] = {"role": role, "state": "serving", "problem": ""}
    for name, key in (("version", "brokerVersionDesc"), ("hatwisted", "hatwistedVersion")):
        if key in info:
            found[name] = info[key]
    taken = info.get("getTransferredTps") or info.get("getTransferedTps", "")
    for name, text in (("putTps", info.get("putTps", "")), ("getTps", taken)):
        found[name] = _first_number(text)
    for name, key in (("logBegin", "commitLogMinOffset"), ("logEnd", "commitLogMaxOffset")):
        if info.get(key, "").isdecimal():
            found[name] = int(info[key])
    return found | (await _copy_state(link, broker["address"]) if role == "slave" else {})


def _first_number(text: str) -> float:
    try:
        return float(text.split()[0])
    except (IndexError, ValueError):
        return 0.0


async def _copy_state(link: Cluster, address: str) -> dict[str, Any]:
    try:
        told = (await link.admin().ha_status(address)).get("haClientRuntimeInfo") or {}
    except ClientError:
        return {}  # RocketMQ 4's don't know the question
    state = str(told.get("state", "")) or "copying"
    if state in COPYING:
        return {"state": "copying", "problem": ""}
    return {"state": state, "problem": str(told.get("problem", "")) or f"its link to the master is {state}"}
