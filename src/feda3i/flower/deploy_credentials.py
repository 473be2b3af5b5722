"""Certificates and keys of a consortium: a certificate authority, the server, one key per site.

Private keys are files of mode 600. They are never printed, logged or put into a run folder.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from feda3i.files import write_file

SigningKey = ec.EllipticCurvePrivateKey
RENEW = "the operator renews it as GUIDE.md says and starts server and proxy again"
SOON = 30.0
"""Days before its end from which on a certificate's end is announced."""
AUTHORITY_DAYS = 3650
"""How long the authority's certificate is valid; every site holds a copy of it."""
PRIVATE = 0o600  # nobody but the owner can read a secret, not even for a moment
_PEM = serialization.Encoding.PEM
_OPENSSH = serialization.Encoding.OpenSSH
_SIGNS = {"key_cert_sign", "crl_sign"}
_USES = (
    *("digital_signature", "content_commitment", "key_encipherment", "data_encipherment"),
    *("key_agreement", "key_cert_sign", "crl_sign", "encipher_only", "decipher_only"),
)


def make_authority(folder: Path, name: str) -> tuple[x509.Certificate, SigningKey]:
    """Write ``ca.key`` and ``ca.crt``; the key signs the server's certificate and nothing else."""
    key = ec.generate_private_key(ec.SECP384R1())
    own = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    usage = x509.KeyUsage(**{use: use in _SIGNS for use in _USES})
    certificate = (
        _certificate(name, _named(name), key, AUTHORITY_DAYS)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(own, critical=False)
        .sign(key, hashes.SHA384())
    )
    _write(folder / "ca", key, certificate)
    return certificate, key


def make_server_certificate(
    folder: Path, hosts: Sequence[str], authority: x509.Certificate, signer: SigningKey, days: int
) -> None:
    """Write ``server.key`` and ``server.crt`` for all names and addresses of the server."""
    key = ec.generate_private_key(ec.SECP384R1())
    names = x509.SubjectAlternativeName([_name(host) for host in dict.fromkeys(hosts)])
    usage = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH])
    issuer_key = x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key())
    certificate = (
        _certificate(hosts[0][:64], authority.subject, key, days)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(names, critical=False)
        .add_extension(usage, critical=False)
        .add_extension(issuer_key, critical=False)
        .sign(signer, hashes.SHA384())
    )
    _write(folder / "server", key, certificate)


def days_left(path: Path) -> float:
    """Return for how many days a certificate is valid from now on; negative if it has expired."""
    certificate = x509.load_pem_x509_certificate(path.read_bytes())
    return (certificate.not_valid_after_utc - datetime.now(UTC)).total_seconds() / 86400


def make_node_key(private: Path, public: Path, name: str) -> None:
    """Write a site's key pair in OpenSSH form: ECDSA, because Flower refuses Ed25519 here."""
    key = ec.generate_private_key(ec.SECP384R1())
    _write_key(private, key, serialization.PrivateFormat.OpenSSH)
    write_file(public, f"{public_line(private)} {name}\n".encode())


def public_line(private: Path) -> str:
    """Return the public half of a site's key as in its ``.pub`` file, without the comment."""
    key = serialization.load_ssh_private_key(private.read_bytes(), None)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise ValueError("not an ECDSA key")
    encoded: bytes = key.public_key().public_bytes(_OPENSSH, serialization.PublicFormat.OpenSSH)
    return encoded.decode()


def san(host: str) -> str:
    """Return a host as openssl writes it in a certificate's names.

    >>> san("127.0.0.1"), san("fl.example.org")
    ('IP:127.0.0.1', 'DNS:fl.example.org')
    """
    return f"{'IP' if isinstance(_name(host), x509.IPAddress) else 'DNS'}:{host}"


def _certificate(
    name: str, issuer: x509.Name, key: SigningKey, days: int
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(_named(name))
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=10))  # clocks differ by some minutes
        .not_valid_after(now + timedelta(days=days))
    )


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _write(path: Path, key: SigningKey, certificate: x509.Certificate) -> None:
    _write_key(path.with_suffix(".key"), key, serialization.PrivateFormat.PKCS8)
    write_file(path.with_suffix(".crt"), certificate.public_bytes(_PEM))


def _write_key(path: Path, key: SigningKey, form: serialization.PrivateFormat) -> None:
    write_file(path, key.private_bytes(_PEM, form, serialization.NoEncryption()), mode=PRIVATE)
