"""`hatwisted cluster`: the brokers and how they are."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

import click

from hatwisted.cli.cluster.clusterrun import Interrupt, cluster_options, run
from hatwisted.cli.errors import EXIT_OK, EXIT_PROBLEMS
from hatwisted.cli.output import json_option, show
from hatwisted.client.cluster import Cluster
from hatwisted.clientcore.errors import ClientError
from hatwisted.wire.registration import MASTER_ID, BrokerData


@click.group()
def cluster() -> None:
    """Inspect the brokers of a cluster."""


@cluster.command("list")
@cluster_options
@json_option
def list_command(namesrv: str, as_json: bool) -> None:
    """List all brokers, with the state that each reports.

    Exit codes: 0 all answered; 1 some didn't, or a group has no master, or there is no broker; 2 usage error, or
    no name server.
    """

    async def work(link: Cluster, _: Interrupt) -> int:
        info = await link.admin().cluster_info()
        groups = sorted(info.broker_addr_table.values(), key=lambda each: (each.cluster, each.broker_name))
        found = await _brokers(link, groups)
        columns = ("cluster", "broker", "id", "address", "version", "putTps", "getTps", "logEnd", "error")
        show(as_json, found, columns, [[each.get(name, "") for name in columns] for each in found])
        whole = found and all(MASTER_ID in each.broker_addrs for each in groups)
        return EXIT_OK if whole and not any("error" in each for each in found) else EXIT_PROBLEMS

    sys.exit(run(namesrv, work))


async def _brokers(link: Cluster, groups: Iterable[BrokerData]) -> list[dict[str, Any]]:
    """What each says. All are asked at once: the silent ones together cost one timeout."""
    from twisted.internet.defer import Deferred, gatherResults

    brokers = [
        {"cluster": group.cluster, "broker": group.broker_name, "id": number, "address": address}
        for group in groups
        for number, address in sorted(group.broker_addrs.items())
    ]
    states = [Deferred.fromCoroutine(_state(link, str(each["address"]))) for each in brokers]
    return [each | state for each, state in zip(brokers, await gatherResults(states), strict=True)]


async def _state(link: Cluster, address: str) -> dict[str, Any]:
    try:
        info = await link.admin().broker_info(address)
    except ClientError as error:
        return {"error": str(error)}
    taken = info.get("getTransferredTps") or info.get("getTransferedTps", "")
    return {
        "version": info.get("brokerVersionDesc", ""),
        "putTps": info.get("putTps", "").partition(" ")[0],
        "getTps": taken.partition(" ")[0],
        "logEnd": info.get("commitLogMaxOffset", ""),
    }
