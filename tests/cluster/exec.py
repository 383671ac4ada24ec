# SPDX-License-Identifier: Apache-2.0
"""pods/exec over a bare WebSocket, every frame printed.

exec.py v5.channel.k8s.io|v4.channel.k8s.io

Runs `cat; echo bye >&2; exit 4` in the pod p1 of check.sh.  Shows what a
client has to expect: an empty stdout frame first, and the exit code only in
the Status of channel 3.  Only v5 can end stdin; on v4 this hangs.
"""

import base64
import os
import socket
import ssl
import struct
import sys
import urllib.parse

HOST, PORT = "10.244.0.1", 16443
STATE = os.environ.get("CLUSTER") or os.path.join(
    os.environ.get("XDG_CACHE_HOME", os.path.expanduser("~/.cache")),
    "mcp-sandbox/cluster")


def connect():
    tls = ssl.create_default_context(cafile=STATE + "/pki/ca.crt")
    tls.load_cert_chain(STATE + "/pki/admin.crt", STATE + "/pki/admin.key")
    return tls.wrap_socket(socket.create_connection((HOST, PORT)),
                           server_hostname=HOST)


def upgrade(sock, protocol):
    query = urllib.parse.urlencode(
        [("container", "c"), ("stdin", "true"), ("stdout", "true"),
         ("stderr", "true"), ("command", "sh"), ("command", "-c"),
         ("command", "cat; echo bye >&2; exit 4")])
    key = base64.b64encode(os.urandom(16)).decode()
    sock.sendall((
        f"GET /api/v1/namespaces/default/pods/p1/exec?{query} HTTP/1.1\r\n"
        f"Host: {HOST}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
        f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\n"
        f"Sec-WebSocket-Protocol: {protocol}\r\n\r\n").encode())


def send(sock, payload):
    mask = os.urandom(4)
    sock.sendall(bytes([0x82, 0x80 | len(payload)]) + mask +
                 bytes(b ^ mask[i % 4] for i, b in enumerate(payload)))


def show(stream):
    for line in iter(stream.readline, b"\r\n"):
        print(line.decode().rstrip())
    while len(head := stream.read(2)) == 2:
        size = head[1] & 127
        if size == 126:
            size = struct.unpack(">H", stream.read(2))[0]
        print(hex(head[0]), stream.read(size))
        if head[0] & 15 == 8:
            return
    print("eof")


def main():
    with connect() as sock:
        upgrade(sock, sys.argv[1])
        send(sock, b"\0hello\n")
        if sys.argv[1].startswith("v5"):
            send(sock, b"\xff\0")
        show(sock.makefile("rb"))


main()
