# SPDX-License-Identifier: Apache-2.0
"""A port for somebody who binds it later."""

import random
import socket


def free_port():
    """Below those that the kernel deals out: none may take it meanwhile."""
    while True:
        port = random.randrange(10240, 32000)
        with socket.socket() as s:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                s.bind(("", port))
                return port
            except OSError:
                pass
