# SPDX-License-Identifier: Apache-2.0
"""A name server on loopback for the tests (RFC 1035), in a thread.

find(name) gives an IPv4 address, None where there is no such name, or a
function of the query that makes the whole answer, or b"" for silence.
"""

import ipaddress
import socket
import struct
import threading

A = 1


class Nameserver:
    def __init__(self, find):
        self.find = find
        self.asked = []
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind(("127.0.0.1", 0))
        self.address = "127.0.0.1:%d" % self.socket.getsockname()[1]
        self.over = False
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()

    def close(self):
        self.over = True
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as wake:
            wake.sendto(b"", self.socket.getsockname())
        self.thread.join(10)
        self.socket.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def serve(self):
        while True:
            query, peer = self.socket.recvfrom(4096)
            if self.over:
                return
            name, kind, end = question(query)
            self.asked.append((name, kind))
            found = self.find(name)
            if callable(found):
                answer = found(query)
            else:
                answer = reply(query, end, kind, found)
            if answer:
                self.socket.sendto(answer, peer)


def question(query):
    at, labels = 12, []
    while query[at]:
        labels.append(query[at + 1:at + 1 + query[at]].decode())
        at += 1 + query[at]
    return ".".join(labels), struct.unpack(">H", query[at + 1:at + 3])[0], \
        at + 5


def reply(query, end, kind, address):
    """One record for A, none for the rest; NXDOMAIN without an address."""
    records = b""
    if address and kind == A:
        records = struct.pack(">HHHIH", 0xc00c, A, 1, 5, 4) + \
            ipaddress.IPv4Address(address).packed
    return query[:2] + struct.pack(">HHHHH", 0x8180 | (3 if not address
                                                       else 0), 1,
                                   bool(records), 0, 0) + \
        query[12:end] + records
