"""One look at brokers and name servers over their ports, as `hatwisted.health` wants it: for the command `status`
and for the live page, which show the same."""

from __future__ import annotations

from hatwisted.clientcore.errors import ClientError, NoNameServer
from hatwisted.clientcore.survey import Survey, Words
from hatwisted.config.errors import ConfigError
from hatwisted.config.javaproperties import parse_properties
from hatwisted.health.figures import Answers, GroupProgress, Look, broker_figures
from hatwisted.health.judgement import GROUP_BEHIND
from hatwisted.wire.registration import BrokerData, ClusterInfo


async def look_at_cluster(survey: Survey, *, consumers: bool, before: Look | None) -> Look:
    """Ask everybody.

    - survey: asks
    - consumers: their groups, too, which costs the most requests
    - before: an earlier look, whose brokers are asked if no name server answers; None: that raises NoNameServer
    """
    said = await survey.name_servers()
    known = _answers(said)
    if not known and before is None:
        raise NoNameServer("no name server answered: " + "; ".join(map(str, said.values())))
    groups: dict[str, BrokerData] = {}
    for broker in before.brokers if before is not None and not known else ():
        whole = groups.setdefault(broker.group, BrokerData(broker_name=broker.group))
        whole.broker_addrs[broker.id] = broker.address
    return await _look(survey, said, groups, consumers=consumers and bool(known))


async def look_at_group(survey: Survey, own: BrokerData, *, by_names: bool) -> Look:
    """Ask the brokers of one group.

    - survey: asks
    - own: those that are known already
    - by_names: ask the name servers, too, and whom they know of it
    """
    said = await survey.name_servers() if by_names else {}
    for info in _answers(said).values():
        for name in [each for each in info.broker_addr_table if each != own.broker_name]:
            del info.broker_addr_table[name]
    return await _look(survey, said, {own.broker_name: own}, consumers=False)


def _answers(said: dict[str, ClusterInfo | ClientError]) -> dict[str, ClusterInfo]:
    return {server: info for server, info in said.items() if not isinstance(info, ClientError)}


async def _look(
    survey: Survey,
    said: dict[str, ClusterInfo | ClientError],
    groups: dict[str, BrokerData],
    *,
    consumers: bool,
) -> Look:
    members: dict[str, frozenset[str]] = {}
    for server, info in _answers(said).items():
        named = set()
        for name, group in info.broker_addr_table.items():
            whole = groups.setdefault(name, BrokerData(broker_name=name, cluster=group.cluster))
            for number, address in group.broker_addrs.items():
                whole.broker_addrs.setdefault(number, address)
                named.add(f"{name}/{number} {address}")
        members[server] = frozenset(named)
    words = await survey.brokers(groups.values())
    figures = [
        broker_figures(name, number, groups[name].broker_addrs[number], answers_of(each))
        for (name, number), each in words.items()
    ]
    asked = await _progress(survey) if consumers and figures else ([], 0)
    return Look(
        at=max((each.at for each in figures), default=0.0),
        name_servers={
            server: str(info) if isinstance(info, ClientError) else None for server, info in said.items()
        },
        members=members,
        brokers=figures,
        groups=asked[0],
        groups_not_asked=asked[1],
    )


async def _progress(survey: Survey) -> tuple[list[GroupProgress], int]:
    """Those that were asked, and how many weren't."""
    found = []
    told, unasked = await survey.groups()
    for name, behind in sorted(told.items(), key=lambda each: (-each[1], each[0])):
        members = await survey.members(name) if behind >= GROUP_BEHIND else None
        found.append(GroupProgress(name=name, behind=behind, members=members))
    return found, unasked


def answers_of(words: Words) -> Answers:
    """A broker's words with its configuration taken apart."""
    config: dict[str, str] | None = None
    if words.config is not None:
        config = properties_in(words.config)
    return Answers(at=words.at, error=words.error, runtime=words.runtime, config=config, ha=words.ha)


def properties_in(text: bytes) -> dict[str, str] | None:
    """A broker's configuration as it sends it; None if it can't be read."""
    try:
        return {entry.key: entry.value for entry in parse_properties(text, "configuration")}
    except (ConfigError, UnicodeDecodeError):
        return None
