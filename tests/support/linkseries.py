"""Master and slave on hosts of their own, and what becomes of the packets between them under load."""

from __future__ import annotations

import time
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path

from testbed.brokergroup import BrokerGroup
from testbed.processes import Setting, broker_answers
from testbed.remotingclient import RemotingClient
from tests.support.crashseries import MASTER, SLAVE, CrashSeries
from tests.support.judgedproducer import JudgedProducer
from tests.support.packetlink import FINE, NOTHING, Host, PacketLink, Weather

MASTER_ADDRESS, SLAVE_ADDRESS = "10.77.0.1", "10.77.0.2"
"""On the wire between them; clients use the loopback of either host."""
SECONDS = (0.5, 4.0)
"""That bad weather lasts; a put waits for its slave for one."""
SLOW = Weather(delay=0.08, jitter=0.02)
LOSSY = Weather(loss=0.1, delay=0.005)
ROUGH = Weather(loss=0.02, doubled=0.2, delay=0.001, jitter=0.03)
"""Packets overtake each other."""


class SplitGroup(BrokerGroup):
    """A group whose brokers run on two hosts."""

    hosts: dict[str, Host]

    def place(self, hosts: dict[str, Host]) -> None:
        """Whose they are, by the names of the brokers; before the first start."""
        self.hosts = hosts
        for name, broker in ((MASTER, self.master), (SLAVE, self.slave)):
            broker.argv = [*hosts[name].prefix(), *broker.argv]
            broker.probe = partial(_answers, hosts[name])

    def master_client(self, timeout: float = 30.0) -> RemotingClient:
        """From its own host."""
        with self.hosts[MASTER].inside():
            return super().master_client(timeout)

    def slave_client(self, timeout: float = 30.0) -> RemotingClient:
        """From its own host."""
        with self.hosts[SLAVE].inside():
            return super().slave_client(timeout)

    def master_settings(self) -> dict[str, Setting]:
        """See BrokerGroup."""
        return super().master_settings() | {"brokerIP1": MASTER_ADDRESS, "brokerIP2": MASTER_ADDRESS}

    def full_slave_settings(self) -> dict[str, Setting]:
        """See BrokerGroup."""
        return super().full_slave_settings() | {
            "haMasterAddress": f"{MASTER_ADDRESS}:{self.ha_port}",
            "brokerIP1": SLAVE_ADDRESS,
            "brokerIP2": SLAVE_ADDRESS,
        }


def _answers(host: Host, port: int) -> None:
    with host.inside():
        broker_answers(port)


class LocalProducer(JudgedProducer):
    """On the master's host."""

    host: Host

    def run(self) -> None:
        """See Producer."""
        with self.host.inside():
            super().run()


class LinkSeries(CrashSeries):
    """See CrashSeries; its strikes are of the network."""

    group_class = SplitGroup
    producer_class = LocalProducer
    group: SplitGroup

    def __init__(self, folder: Path, seed: int) -> None:
        super().__init__(folder, seed)
        self.strikes = {
            "slow link": lambda: self.weather(SLOW, SLOW),
            "lossy link": lambda: self.weather(LOSSY, LOSSY),
            "packets overtake and are doubled": lambda: self.weather(ROUGH, ROUGH),
            "cut": lambda: self.weather(NOTHING, NOTHING),
            "reports are lost": lambda: self.weather(FINE, NOTHING),
            "log is lost": lambda: self.weather(NOTHING, FINE),
            "cut, and kill slave": lambda: self.weather(NOTHING, NOTHING, SLAVE),
            "cut, and kill master": lambda: self.weather(NOTHING, NOTHING, MASTER),
        }
        self._open = ExitStack()

    def __enter__(self) -> LinkSeries:
        with ExitStack() as stack:
            hosts = {name: stack.enter_context(closing(Host())) for name in (MASTER, SLAVE)}
            ends = (
                hosts[MASTER].tun("wire0", f"{MASTER_ADDRESS}/30"),
                hosts[SLAVE].tun("wire0", f"{SLAVE_ADDRESS}/30"),
            )
            self.link = stack.enter_context(closing(PacketLink(ends, self.seed)))
            self.link.start()
            self.group.place(hosts)
            stack.enter_context(self.group)
            super().__enter__()
            self._open = stack.pop_all()
        return self

    def __exit__(self, *failure: object) -> None:
        self._open.close()

    def _load(self) -> JudgedProducer:
        producer = super()._load()
        assert isinstance(producer, LocalProducer)
        producer.host = self.group.hosts[MASTER]
        return producer

    def weather(self, there: Weather, back: Weather, killed: str | None = None) -> None:
        """What becomes of packets for a while.

        - there: of those to the slave
        - back: of those to the master
        - killed: the broker that ends meanwhile
        """
        self.link.set(there, back)
        time.sleep(self.random.uniform(*SECONDS))
        if killed is not None:
            self.kill(killed)
            self._ready()
        self.link.set(FINE, FINE)
