"""What a server's configuration says of those who come in: its ports, its accounts, and how often they may ask.

A name server has these as a broker has them; the rest of `options` would have it load a broker.
"""

from __future__ import annotations

from os.path import dirname, join

from hatwisted.acl.aclfiles import AclPlaces
from hatwisted.acl.entrance import EntranceOptions
from hatwisted.acl.rateguard import Rates
from hatwisted.config.accesskeys import AccessKeys
from hatwisted.config.errors import SettingError
from hatwisted.config.schema import BrokerConfig
from hatwisted.remoting.portoptions import PortOptions
from hatwisted.wire.networks import allow_list

ACL_FILE = "conf/plain_acl.yml"
"""In RocketMQ's home folder."""


def acl_places(config: AccessKeys) -> AclPlaces | None:
    """Where its accounts are; None if it lets everybody in. Raises SettingError."""
    if not config.acl_enable:
        return None
    main, home = config.acl_plain_file, config.rocketmq_home
    if main is None:
        if home is None:
            raise SettingError(
                "aclEnable", f"set aclPlainFile, or rocketmqHome to the folder with {ACL_FILE}"
            )
        main = join(home, ACL_FILE)
    return AclPlaces(main=main, folder=join(dirname(main), "acl"))


def port_options(config: AccessKeys) -> PortOptions:
    """Who may connect to a server's ports."""
    unacknowledged = config.max_unacknowledged_bytes_per_address if isinstance(config, BrokerConfig) else None
    return PortOptions(
        networks=allow_list(config.listen_allow_list),
        unacknowledged_bytes=unacknowledged,
        of_address=config.max_connections_per_address,
        unread_bytes=config.max_unread_answer_bytes,
        idle_limit=config.server_channel_max_idle_time_seconds,
        sizes=bool(config.address_byte_rate or config.account_byte_rate),
    )


def entrance_options(config: AccessKeys) -> EntranceOptions:
    """Who may change it, and how often clients may ask."""
    return EntranceOptions(
        admins=allow_list(config.admin_allow_list),
        of_address=Rates(requests=config.address_request_rate, whole_bytes=config.address_byte_rate),
        of_account=Rates(requests=config.account_request_rate, whole_bytes=config.account_byte_rate),
        failed_logins=config.failed_login_rate,
    )
