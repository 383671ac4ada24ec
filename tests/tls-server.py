# SPDX-License-Identifier: Apache-2.0
"""tls-server.py PKI NAME VERSION [CLIENT_CA] - an HTTPS server for test-web.

Prints its port, then answers every request with the name asked for (SNI), the
Host field and the subject of the client's certificate. Ends with its stdin.
"""
import http.server
import os
import socket
import ssl
import sys
import threading

pki, name, version, *client_ca = sys.argv[1:]


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        subject = (self.connection.getpeercert() or {}).get("subject", ())
        who = ",".join(v for rdn in subject for k, v in rdn
                       if k == "commonName")
        body = (f"sni={self.connection.asked} host={self.headers['Host']} "
                f"client={who} {self.connection.version()}").encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request, address):
        pass

    def finish_request(self, request, address):
        with context.wrap_socket(request, server_side=True,
                                 do_handshake_on_connect=False) as tls:
            try:
                tls.do_handshake()
            except ssl.SSLError:
                # A close with unread bytes would take our alert along.
                plain = socket.socket(fileno=tls.detach())
                plain.shutdown(socket.SHUT_WR)
                while plain.recv(4096):
                    pass
                plain.close()
                return
            Handler(tls, address, self)


def remember(sock, server_name, _):
    sock.asked = server_name


class Socket(ssl.SSLSocket):
    asked = None


context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.sslsocket_class = Socket
context.sni_callback = remember
context.load_cert_chain(f"{pki}/{name}.crt", f"{pki}/{name}.key")
wanted = {"1.2": ssl.TLSVersion.TLSv1_2, "1.3": ssl.TLSVersion.TLSv1_3}
context.minimum_version = context.maximum_version = wanted[version]
if client_ca:
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(f"{pki}/{client_ca[0]}.crt")
server = Server(("127.0.0.1", 0), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()
os.write(1, b"%d\n" % server.server_address[1])
sys.stdin.read()
os._exit(0)
