"""Free ports on loopback."""

import random
import socket

# Below the range from which systems take the ports of outgoing connections: a port that a test
# gives up for a while (a stopped server) is not taken by a passing client.
_FIRST, _LAST = 20000, 32000


def free_port() -> int:
    """A port on 127.0.0.1 that nobody listens on now; take it soon and be ready to try again."""
    while True:
        port = random.randint(_FIRST, _LAST)
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        return port
