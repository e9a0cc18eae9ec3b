"""The machine that a configuration is for: RocketMQ's defaults take name, address and home folder from it."""

from __future__ import annotations

from os.path import join
from typing import NamedTuple


class Host(NamedTuple):
    """One machine.

    - name: the host's, and that of a broker on it unless the configuration says otherwise
    - address: by which other hosts most likely reach it
    - home: the folder that stores and settings lie in
    """

    name: str
    address: str
    home: str

    def of_broker(self) -> dict[str, str]:
        """Fields of a BrokerConfig that the configuration leaves unset."""
        return {
            "broker_name": self.name,
            "broker_ip1": self.address,
            "broker_ip2": self.address,
            "store_path_root_dir": join(self.home, "store"),
        }

    def of_name_server(self) -> dict[str, str]:
        """Fields of a NamesrvConfig that the configuration leaves unset."""
        return {"kv_config_path": join(self.home, "namesrv", "kvConfig.json")}
