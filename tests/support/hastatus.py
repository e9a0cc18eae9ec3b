"""What master and slave say of the HA link between them (907)."""

from __future__ import annotations

from testbed.remotingclient import RemotingClient

GET_BROKER_HA_STATUS = 907


def ha_status(port: int) -> dict[str, object]:
    with RemotingClient("127.0.0.1", port) as client:
        return client.call(GET_BROKER_HA_STATUS).expect(0).json()


def client_side(port: int) -> dict[str, str]:
    """A slave's own view of its link."""
    info = ha_status(port)["haClientRuntimeInfo"]
    assert isinstance(info, dict)
    return info


def links(port: int) -> list[dict[str, object]]:
    """A master's view of its slaves."""
    found = ha_status(port)["haConnectionInfo"]
    assert isinstance(found, list)
    return found
