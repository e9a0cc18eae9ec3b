"""Which requests change a server is what the page for operators says: none of them is served to a stranger, and
each leaves its line in the audit. The codes and names here are the page's, not the program's."""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

from hatwisted.acl.changes import BROKER_CHANGES, BROKERS_WORD, NAME_SERVER_CHANGES
from hatwisted.acl.needs import ADMIN_CODES
from hatwisted.clientcore.credentials import Credentials
from hatwisted.config.schema import BrokerRole
from hatwisted.wire.codes import RequestCode, ResponseCode
from tests.support.memorynode import CLIENT_HOST, NAME_SERVER
from tests.support.pages import DOCS
from tests.unit.acl.files import ADMIN, SAMPLE
from tests.unit.assembly.test_allowlists import ADDRESS, MASTER, SLAVE, TOPIC, AllowListCase

NAME_SERVER_HOST = NAME_SERVER.rpartition(":")[0]
SECTION = (DOCS / "operations.md").read_text().partition("## Who may connect, who may change what")[2]
SECTION = " ".join(SECTION.partition("\n## ")[0].split())


class Asked(NamedTuple):
    """One change: its fields and body, and the name of its event."""

    event: str
    fields: dict[str, str]
    body: bytes = b""


GROUP = json.dumps({"groupName": "billing", "retryMaxTimes": 3}).encode()
# In an order in which each finds what it changes.
BROKERS = {
    200: Asked("group.put", {}, GROUP),
    17: Asked("topic.put", TOPIC),
    25: Asked("config.put", {}, b"fileReservedTime=48"),
    314: Asked(
        "progress.clone", {"srcGroup": "readers", "destGroup": "others", "topic": "T", "offline": "true"}
    ),
    222: Asked(
        "progress.reset",
        {
            "topic": "T",
            "group": "readers",
            "timestamp": "-1",
            "isForce": "true",
            "queueId": "0",
            "offset": "0",
        },
    ),
    306: Asked("queues.clean-expired", {}),
    316: Asked("queues.clean-unused", {}),
    329: Asked("log.delete-expired", {}),
    207: Asked("group.delete", {"groupName": "billing"}),
    215: Asked("topic.delete", {"topic": "Orders"}),
}
SLAVES = {20047: Asked("log.repair", {"begin": "0", "end": "100"})}
NO_TRACE = {306, 316, 329}
"""Of these a broker shows nothing here: there's nothing to clean."""
ACCOUNTS = {
    50: Asked("account.put", {"accessKey": "newcomer", "secretKey": "hush-hush"}),
    51: Asked("account.delete", {"accessKey": "newcomer"}),
    53: Asked("account.addresses", {"globalWhiteAddrs": "10.9.9.*"}),
}
ROUTE = json.dumps(
    {"queueDatas": [{"brokerName": "broker-a", "readQueueNums": 4, "writeQueueNums": 4, "perm": 6}]}
).encode()
NAME_SERVERS = {
    100: Asked("setting.put", {"namespace": "n", "key": "k", "value": "v"}),
    102: Asked("setting.delete", {"namespace": "n", "key": "k"}),
    205: Asked("route.read-only", {"brokerName": "broker-a"}),
    327: Asked("route.writable", {"brokerName": "broker-a"}),
    217: Asked("route.put", {"topic": "Added"}, ROUTE),
    216: Asked("route.delete", {"topic": "Added"}),
    318: Asked("config.put", {}, b"orderMessageEnable=true"),
}

BROKERS_WORDS = {103: "broker.displace", 104: "broker.unregister", 20043: "progress.join"}
"""Taken from everywhere; a line each where they displace something, see `test_allowlists`."""
DAILY_WORK = {10, 11, 15, 34, 35, 36, 37, 41, 42, 310, 320, 322, 324, 325, 361, 904}
"""Sends, pulls, commits, heartbeats, sent-back messages, ends of transactions, locks, replies; of brokers, that
they are there and unchanged. They are about what is their sender's own."""
LOOKS = {
    12, 14, 21, 26, 28, 29, 30, 31, 32, 33, 38, 43, 45, 46, 52, 54, 60, 61, 101, 105, 106, 201, 202, 203, 204,
    206, 208, 219, 223, 224, 300, 303, 304, 305, 307, 308, 309, 311, 312, 313, 315, 317, 319, 321, 328, 351, 402,
    901, 907, 20044, 20045, 20046,
}  # fmt: skip
"""They change nothing. 309 has one consumer take a message once more, and is for its group."""
TO_CLIENTS = {39, 40, 220, 221, 326}
"""No server takes them."""
FIELDS = {
    "topic": "T", "group": "readers", "consumerGroup": "readers", "producerGroup": "p", "queueId": "0",
    "offset": "0", "timestamp": "0", "clientId": "c", "key": "k", "maxNum": "1", "beginTimestamp": "0",
    "endTimestamp": "0", "namespace": "n", "cluster": "DefaultCluster", "brokerName": "broker-a",
    "brokerAddr": ADDRESS, "begin": "0", "end": "8", "index": "0", "count": "1", "filterGroups": "readers",
    "compareGroup": "others", "statsName": "s", "statsKey": "k", "isOrder": "false",
}  # fmt: skip


def codes(pattern: str) -> list[set[int]]:
    """The lists of request codes that one sentence of the page has."""
    found = re.search(pattern, SECTION)
    assert found is not None, pattern
    return [{int(code) for code in each.split(",")} for each in found.groups()]


class ChangeTests(AllowListCase):
    def refused(self, changes: dict[int, Asked], address: str, account: Credentials | None = None) -> None:
        for code, asked in changes.items():
            answer = self.ask(code, CLIENT_HOST, address, account, asked.body, **asked.fields)
            self.assertEqual(answer.code, ResponseCode.NO_PERMISSION, code)
            self.assertIn(f"request {code} changes this server", str(answer.remark))
        self.assertEqual(self.audited(), [])

    def served(self, code: int, asked: Asked, host: str, account: Credentials | None = None) -> None:
        """Asked from there, it has its line, and no other has."""
        self.lines.clear()
        address = NAME_SERVER if host == NAME_SERVER_HOST else f"{host}:10911"
        self.ask(code, host, address, account, asked.body, **asked.fields)
        self.assertEqual([event for event, _ in self.audited()], [asked.event], code)

    def shown(self, address: str, *asked: tuple[int, dict[str, str]]) -> list[Any]:
        """What a server shows of what can be changed."""
        answers = [self.ask(code, to=address, **fields) for code, fields in asked]
        return [(answer.code, answer.ext, answer.body) for answer in answers]

    def test_the_page_names_all_of_them(self) -> None:
        brokers, names = codes(r"changed or deleted \(([\d, ]+); on a name server ([\d, ]+)\)")
        (accounts,) = codes(r"for changes of accounts \(([\d, ]+)\) as well")
        self.assertEqual(brokers, set(BROKERS) | set(SLAVES))
        self.assertEqual(accounts, set(ACCOUNTS))
        self.assertEqual(brokers | accounts, set(BROKER_CHANGES))
        self.assertEqual(names, set(NAME_SERVERS))
        self.assertEqual(names, set(NAME_SERVER_CHANGES))

        told = re.findall(r"`([a-z]+\.[a-z-]+)`", SECTION.partition("Each change has a line in the log")[2])
        changes = [*BROKERS.values(), *SLAVES.values(), *ACCOUNTS.values(), *NAME_SERVERS.values()]
        events = {each.event for each in changes} | set(BROKERS_WORDS.values())
        self.assertEqual(set(told), events | {"accounts.reread", "config.reread"})

    def test_every_code_has_a_line_or_changes_nothing_of_others(self) -> None:
        """A code of the protocol that's in none of these has to be thought about."""
        self.assertEqual(BROKERS_WORD, BROKERS_WORDS)
        changes = [set(each) for each in (BROKERS, SLAVES, ACCOUNTS, NAME_SERVERS, BROKERS_WORDS)]
        groups = [*changes, DAILY_WORK, LOOKS, TO_CLIENTS]
        self.assertEqual(set().union(*groups), set(RequestCode))
        self.assertEqual(sum(map(len, groups)), len(RequestCode))
        # Who must be an administrator to read must be one because of secrets.
        self.assertEqual(ADMIN_CODES - set().union(*changes), {54, 20046})

    def test_looking_changes_nothing(self) -> None:
        self.nodes.start_name_server()
        self.nodes.start(MASTER, namesrv_addr=NAME_SERVER)
        self.nodes.pass_time(1)
        self.assertEqual(self.nodes.send(ADDRESS), ResponseCode.SUCCESS)
        read = {"consumerGroup": "readers", "topic": "T", "queueId": "0", "commitOffset": "1"}
        self.ask(RequestCode.UPDATE_CONSUMER_OFFSET, **read)
        of_broker = [(code, {}) for code in (21, 201, 43, 45, 26)]
        of_names = [(219, {"namespace": "n"}), (106, {}), (206, {}), (105, {"topic": "T"}), (319, {})]
        before = self.shown(ADDRESS, *of_broker), self.shown(NAME_SERVER, *of_names)
        for code in sorted(LOOKS):
            for address in (ADDRESS, NAME_SERVER):
                self.ask(code, to=address, **FIELDS)
            after = self.shown(ADDRESS, *of_broker), self.shown(NAME_SERVER, *of_names)
            self.assertEqual(after, before, code)
        self.assertEqual(self.audited(), [])

    def test_B180_a_stranger_changes_nothing_of_a_broker(self) -> None:
        self.nodes.start(MASTER, admin_allow_list=None)
        self.nodes.network.names[MASTER] = MASTER
        self.assertEqual(self.nodes.send(ADDRESS), ResponseCode.SUCCESS)
        read = {"consumerGroup": "readers", "topic": "T", "queueId": "0", "commitOffset": "1"}
        self.ask(RequestCode.UPDATE_CONSUMER_OFFSET, **read)
        # Topics, groups, progress, configuration.
        looks = [(code, {}) for code in (21, 201, 43, 26)]
        before = self.shown(ADDRESS, *looks)

        self.refused(BROKERS, ADDRESS)
        self.assertEqual(self.shown(ADDRESS, *looks), before)
        for code, asked in BROKERS.items():
            self.served(code, asked, MASTER)
            after = self.shown(ADDRESS, *looks)
            self.assertEqual(after == before, code in NO_TRACE, code)
            before = after

    def test_B180_nor_of_a_slave(self) -> None:
        self.nodes.start(SLAVE, admin_allow_list=None, broker_role=BrokerRole.SLAVE, broker_id=1)
        self.nodes.network.names[SLAVE] = SLAVE
        self.refused(BROKERS | SLAVES, f"{SLAVE}:10911")
        for code, asked in SLAVES.items():
            self.served(code, asked, SLAVE)

    def test_B180_nor_of_a_name_server(self) -> None:
        self.nodes.start_name_server(admin_allow_list=None)
        self.nodes.start(MASTER, namesrv_addr=NAME_SERVER)
        self.nodes.pass_time(1)
        # Settings, groups of brokers, topics, a route, configuration.
        looks = [(219, {"namespace": "n"}), (106, {}), (206, {}), (105, {"topic": "TBW102"}), (319, {})]
        before = self.shown(NAME_SERVER, *looks)

        self.refused(NAME_SERVERS, NAME_SERVER)
        self.assertEqual(self.shown(NAME_SERVER, *looks), before)
        for code, asked in NAME_SERVERS.items():
            self.served(code, asked, NAME_SERVER_HOST)
            after = self.shown(NAME_SERVER, *looks)
            self.assertNotEqual(after, before, code)
            before = after

    def test_accounts_are_changed_from_the_list_alone_if_there_is_one(self) -> None:
        file = self.nodes.folder / "plain_acl.yml"
        file.parent.mkdir()
        file.write_bytes(SAMPLE)
        self.nodes.start(MASTER, acl_enable=True, acl_plain_file=str(file), admin_allow_list=MASTER)
        self.refused(BROKERS | ACCOUNTS, ADDRESS, ADMIN)
        self.assertEqual(file.read_bytes(), SAMPLE)
        for code, asked in ACCOUNTS.items():
            before = file.read_bytes()
            self.served(code, asked, MASTER, ADMIN)
            self.assertNotEqual(file.read_bytes(), before, code)
