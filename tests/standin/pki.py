# SPDX-License-Identifier: Apache-2.0
"""Certificates and kubeconfigs, made new in each state folder.

Server certificates: good, rsa, tls12 (good, but TLS 1.2 only), expired,
wrong-name, wrong-ca, no-ip (a DNS name only). Client certificates:
client-ec, client-rsa.
"""

import base64
import datetime
import ipaddress
import os
import ssl

import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

DAY = datetime.timedelta(days=1)
SERVERS = ("good", "rsa", "tls12", "expired", "wrong-name", "wrong-ca",
           "no-ip")


def new_key(kind):
    if kind == "rsa":
        return rsa.generate_private_key(public_exponent=65537, key_size=2048)
    return ec.generate_private_key(ec.SECP256R1())


def subject(name, group=None):
    parts = [x509.NameAttribute(NameOID.COMMON_NAME, name)]
    if group:
        parts.insert(0, x509.NameAttribute(NameOID.ORGANIZATION_NAME, group))
    return x509.Name(parts)


class Pki:
    def __init__(self, folder):
        self.folder = os.path.join(folder, "pki")
        os.makedirs(self.folder, exist_ok=True)
        self.ca = self.make_ca("ca")
        self.made = {}
        self.client("client-ec", "admin", "ec")

    def path(self, name):
        return os.path.join(self.folder, name)

    def save(self, name, cert, key):
        with open(self.path(name + ".crt"), "wb") as f:
            f.write(cert.public_bytes(serialization.Encoding.PEM))
        fd = os.open(self.path(name + ".key"),
                     os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600)
        with open(fd, "wb") as f:
            f.write(key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption()))

    def make_ca(self, name):
        key = new_key("ec")
        me = subject("standin-" + name)
        now = datetime.datetime.now(datetime.timezone.utc)
        cert = (x509.CertificateBuilder().subject_name(me).issuer_name(me)
                .public_key(key.public_key())
                .serial_number(x509.random_serial_number())
                .not_valid_before(now - DAY).not_valid_after(now + 365 * DAY)
                .add_extension(x509.BasicConstraints(True, None), True)
                .add_extension(x509.KeyUsage(
                    digital_signature=True, key_cert_sign=True,
                    crl_sign=False, content_commitment=False,
                    key_encipherment=False, data_encipherment=False,
                    key_agreement=False, encipher_only=False,
                    decipher_only=False), True)
                .add_extension(x509.SubjectKeyIdentifier.from_public_key(
                    key.public_key()), False)
                .sign(key, hashes.SHA256()))
        self.save(name, cert, key)
        return cert, key

    def sign(self, name, who, key, ca, usage, names=(), days=(-1, 365)):
        ca_cert, ca_key = ca
        now = datetime.datetime.now(datetime.timezone.utc)
        builder = (x509.CertificateBuilder().subject_name(who)
                   .issuer_name(ca_cert.subject).public_key(key.public_key())
                   .serial_number(x509.random_serial_number())
                   .not_valid_before(now + days[0] * DAY)
                   .not_valid_after(now + days[1] * DAY)
                   .add_extension(x509.ExtendedKeyUsage([usage]), False))
        if names:
            builder = builder.add_extension(
                x509.SubjectAlternativeName(names), False)
        self.save(name, builder.sign(ca_key, hashes.SHA256()), key)

    def server(self, kind):
        if kind not in SERVERS:
            raise ValueError(f"no server certificate {kind!r}: {SERVERS}")
        name = "server-" + kind
        names = [x509.DNSName("localhost"),
                 x509.IPAddress(ipaddress.ip_address("127.0.0.1")),
                 x509.IPAddress(ipaddress.ip_address("::1"))]
        if kind == "wrong-name":
            names = [x509.DNSName("example.test"),
                     x509.IPAddress(ipaddress.ip_address("192.0.2.1"))]
        if kind == "no-ip":
            names = [x509.DNSName("localhost")]
        ca = self.make_ca("other-ca") if kind == "wrong-ca" else self.ca
        days = (-30, -1) if kind == "expired" else (-1, 365)
        if name not in self.made:
            self.sign(name, subject("kube-apiserver"),
                      new_key("rsa" if kind == "rsa" else "ec"), ca,
                      ExtendedKeyUsageOID.SERVER_AUTH, names, days)
            self.made[name] = True
        ctx = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        if kind == "tls12":
            ctx.maximum_version = ssl.TLSVersion.TLSv1_2
        ctx.load_cert_chain(self.path(name + ".crt"),
                            self.path(name + ".key"))
        ctx.load_verify_locations(self.path("ca.crt"))
        ctx.verify_mode = ssl.CERT_OPTIONAL
        ctx.set_alpn_protocols(["http/1.1"])
        return ctx

    def client(self, name, user, kind):
        if name not in self.made:
            self.sign(name, subject(user, "system:masters"), new_key(kind),
                      self.ca, ExtendedKeyUsageOID.CLIENT_AUTH)
            self.made[name] = True

    def data(self, name):
        with open(self.path(name), "rb") as f:
            return base64.b64encode(f.read()).decode()

    def kubeconfig(self, name, server, user, namespace="default",
                   as_files=False, **cluster):
        """Writes a kubeconfig and returns its path; user is a dict, or the
        name of a client certificate."""
        if isinstance(user, str):
            user = ({"client-certificate": f"pki/{user}.crt",
                     "client-key": f"pki/{user}.key"} if as_files else
                    {"client-certificate-data": self.data(user + ".crt"),
                     "client-key-data": self.data(user + ".key")})
        ca = {}
        if server.startswith("https:"):
            ca = ({"certificate-authority": "pki/ca.crt"} if as_files else
                  {"certificate-authority-data": self.data("ca.crt")})
        config = {
            "apiVersion": "v1", "kind": "Config", "current-context": "standin",
            "clusters": [{"name": "standin",
                          "cluster": {"server": server, **ca, **cluster}}],
            "users": [{"name": "user", "user": user}],
            "contexts": [{"name": "standin", "context": {
                "cluster": "standin", "user": "user",
                "namespace": namespace}}]}
        path = os.path.join(os.path.dirname(self.folder), name)
        fd = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600)
        with open(fd, "w", encoding="utf-8") as f:
            yaml.safe_dump(config, f, sort_keys=False)
        return path
