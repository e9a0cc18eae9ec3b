"""What a new slave's configuration has to say, from what its master says about itself. No I/O.

Everything that the two stores have in common is taken over, so that the copy can take its master's place later:
file sizes, delay levels, retention. What is the slave's own (id, port, address, folder) comes from its host.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from hatwisted.clientcore.tls import Tls
from hatwisted.config.javaproperties import format_property
from hatwisted.wire.printable import printable
from hatwisted.wire.quantities import size_text
from hatwisted.wire.registration import MASTER_ID, BrokerData

AS_THE_MASTER: Final = (
    "mappedFileSizeCommitLog",
    "mappedFileSizeConsumeQueue",
    "maxHashSlotNum",
    "maxIndexNum",
    "messageDelayLevel",
    "maxMessageSize",
    "deleteWhen",
    "fileReservedTime",
    "diskMaxUsedSpaceRatio",
    "flushDiskType",
    "enablePropertyFilter",
    "slaveReadEnable",
    "haTlsEnable",
)
"""Keys whose values a slave takes over, as far as the master has them."""
SPARE: Final = 1.1
"""Room to be had, as a multiple of the master's log: queues, index, and what comes while it is copied."""


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """Where the slave will run.

    - folder: for its configuration, store and log
    - address: by which others reach it
    - port: its listenPort
    - free: bytes on the folder's disk
    """

    folder: str
    address: str
    port: int
    free: int


class Master(msgspec.Struct, frozen=True, kw_only=True):
    """Whom it copies: what name servers and the master itself say.

    - name_servers: "host:port;host:port"
    - group: brokers of its name
    - config: its answer to 26
    - log_begin, log_end: of its log
    """

    name_servers: str
    group: BrokerData
    config: Mapping[str, str]
    log_begin: int
    log_end: int

    @property
    def address(self) -> str:
        """Of its listenPort."""
        return self.group.broker_addrs[MASTER_ID]

    @property
    def ha_address(self) -> str:
        """Of the port that slaves copy from. brokerIP2 may be missing, the port hardly."""
        host, _, port = self.address.rpartition(":")
        return f"{self.config.get('brokerIP2') or host}:{self.config.get('haListenPort') or int(port) + 1}"


def slave_settings(master: Master, place: Place, credentials_file: str | None = None) -> dict[str, str]:
    """Key by key.

    - master: whom it copies
    - place: where it runs
    - credentials_file: of the account that it signs its requests with; None: none
    """
    taken = set(master.group.broker_addrs)
    loopback = place.address.startswith("127.")
    settings = {
        "brokerClusterName": master.group.cluster,
        "brokerName": master.group.broker_name,
        "brokerId": str(next(number for number in range(1, len(taken) + 2) if number not in taken)),
        "brokerRole": "SLAVE",
        "namesrvAddr": master.name_servers,
        "listenPort": str(place.port),
        "brokerIP1": place.address,
        "brokerIP2": place.address,
        **({"bindAddress": place.address} if loopback else {}),
        "storePathRootDir": f"{place.folder}/store",
        "haFirstSync": "minOffset",
        **({"credentialsFile": credentials_file} if credentials_file else {}),
    }
    return settings | {key: master.config[key] for key in AS_THE_MASTER if master.config.get(key)}


def conf_text(master: Master, settings: Mapping[str, str]) -> str:
    """The configuration file. settings: as of `slave_settings`."""
    own = [key for key in settings if key not in AS_THE_MASTER]
    shared = [key for key in settings if key in AS_THE_MASTER]
    lines = [
        # In the name server's words, which mustn't end the line.
        f"# A slave of {printable(master.group.broker_name)}, whose master is at {printable(master.address)}.",
        *(format_property(key, settings[key]) for key in own),
        "",
        "# As at the master, so that this store can take its place.",
        *(format_property(key, settings[key]) for key in shared),
    ]
    return "\n".join(lines) + "\n"


def tls_settings(tls: Tls | None) -> dict[str, str]:
    """So that the slave calls its master and name servers as this command has. tls: None if it was plain."""
    if tls is None:
        return {}
    told = {
        "tls.enable": "true",
        "tls.client.authServer": "false" if tls.verify == "none" else "true",
        "tls.client.trustCertPath": tls.trust_file,
        "tls.client.certPath": tls.certificate,
        "tls.client.keyPath": tls.key,
        "tls.client.keyPassword": tls.key_password,
    }
    return {key: value for key, value in told.items() if value}


def objections(master: Master, place: Place, credentials_file: str | None) -> Iterable[str]:
    """What speaks against it on the slave's side, and what to do.

    - master: whom it copies
    - place: where it runs
    - credentials_file: of its account, None: none
    """
    if master.config.get("aclEnable") == "true" and credentials_file is None:
        yield (
            f"the master at {master.address} asks for accounts (aclEnable=true): give the slave one that it can "
            "ask for tables with, --credentials FILE"
        )
    needed = int((master.log_end - master.log_begin) * SPARE)
    if place.free < needed:
        yield (
            f"{place.folder}: {size_text(place.free)} free, and the master's log needs {size_text(needed)}: "
            "free space, or choose another disk with --dir"
        )


def daemon_command(twistd: str, folder: str) -> list[str]:
    """What starts the slave in the background."""
    return [
        twistd,
        f"--pidfile={folder}/slave.pid",
        f"--logfile={folder}/slave.log",
        f"--rundir={folder}",
        "haslave",
        f"--conf={folder}/broker.conf",
    ]


def unit_text(twistd: str, folder: str, group: str) -> str:
    """A systemd unit for it.

    - twistd: the program
    - folder: of the slave
    - group: its broker name
    """
    start = shlex.join([twistd, "-n", "--pidfile=", "--logfile=-", "haslave", f"--conf={folder}/broker.conf"])
    start = start.replace("$", "$$").replace("%", "%%")
    place = folder.replace("%", "%%")
    return f"""[Unit]
Description=hatwisted slave of {group}
Wants=network-online.target
After=network-online.target

[Service]
Type=notify
ExecStart={start}
ExecReload=/bin/kill -HUP $MAINPID
WorkingDirectory={place}
Restart=on-failure
RestartSec=5
RestartPreventExitStatus=1
TimeoutStartSec=300
TimeoutStopSec=120
WatchdogSec=60
LimitNOFILE=65536
UMask=0077
NoNewPrivileges=yes
ProtectSystem=full
ReadWritePaths={_quoted(place)}

[Install]
WantedBy=multi-user.target
"""


def _quoted(text: str) -> str:
    """A word of a systemd unit."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
