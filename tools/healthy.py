"""Does the server in this container live? Exit status 0, or 1 and a line that says why not.

HATWISTED_PROBE is what is asked: the page of a broker for whoever restarts it, or host:port of a name server.
"""

import os
import socket
import sys
import urllib.error
import urllib.request

SECONDS = 4


def main() -> None:
    """Ask once."""
    where = os.environ.get("HATWISTED_PROBE", "http://127.0.0.1:5557/healthz")
    try:
        if where.startswith("http"):
            urllib.request.urlopen(where, timeout=SECONDS).close()
        else:
            host, _, port = where.rpartition(":")
            socket.create_connection((host, int(port)), SECONDS).close()
    except urllib.error.HTTPError as error:
        sys.exit(f"{where}: {error.read().decode(errors='replace').strip()}")
    except (OSError, ValueError) as error:
        sys.exit(f"{where}: {error}")


if __name__ == "__main__":
    main()
