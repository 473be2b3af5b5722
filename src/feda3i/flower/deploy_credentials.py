"""Certificates and keys of a consortium: a certificate authority, the server, one key per site.

Private keys are files of mode 600. They are never printed, logged or put into a run folder.
"""

import ipaddress
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from feda3i.files import write_file

Key = ec.EllipticCurvePrivateKey
RENEW = "the operator renews it as GUIDE.md says and starts server and proxy again"
SOON = 30.0  # days before its end from which on a certificate's end is announced
DAYS = 825
AUTHORITY_DAYS = 3650
"""How long the authority's certificate is valid; every site holds a copy of it."""
PRIVATE = 0o600  # nobody but the owner can read a secret, not even for a moment
_PEM, _OPENSSH = serialization.Encoding.PEM, serialization.Encoding.OpenSSH
# Signs certificates and lists of them, and nothing else.
_SIGNS = x509.KeyUsage(False, False, False, False, False, True, True, False, False)


def make_certificates(authority: Path, server: Path, hosts: Sequence[str]) -> None:
    """Write the authority's key and certificate, and those of the server at these hosts."""
    signer, key = (ec.generate_private_key(ec.SECP384R1()) for _ in range(2))
    issuer, subject = (
        x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        for name in ("feda3i consortium", hosts[0][:64])
    )
    own: list[x509.ExtensionType] = [
        x509.BasicConstraints(ca=True, path_length=0),
        _SIGNS,
        x509.SubjectKeyIdentifier.from_public_key(signer.public_key()),
    ]
    signed: list[x509.ExtensionType] = [
        x509.BasicConstraints(ca=False, path_length=None),
        x509.SubjectAlternativeName([_name(host) for host in dict.fromkeys(hosts)]),
        x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]),
        x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()),
    ]
    for path, owner, named, days, extensions in (
        (authority / "ca", signer, issuer, AUTHORITY_DAYS, own),
        (server / "server", key, subject, DAYS, signed),
    ):
        now = datetime.now(UTC)
        builder = (
            x509.CertificateBuilder(issuer, named, owner.public_key(), x509.random_serial_number())
            .not_valid_before(now - timedelta(minutes=10))  # clocks differ by some minutes
            .not_valid_after(now + timedelta(days=days))
        )
        for extension in extensions:
            is_critical = isinstance(extension, x509.BasicConstraints | x509.KeyUsage)
            builder = builder.add_extension(extension, is_critical)
        certificate = builder.sign(signer, hashes.SHA384())
        write_file(path.with_suffix(".crt"), certificate.public_bytes(_PEM))
        _write_key(path.with_suffix(".key"), owner, serialization.PrivateFormat.PKCS8)


def days_left(path: Path) -> float:
    """Return for how many days a certificate is valid from now on; negative if it has expired."""
    certificate = x509.load_pem_x509_certificate(path.read_bytes())
    return (certificate.not_valid_after_utc - datetime.now(UTC)).total_seconds() / 86400


def make_node_key(private: Path, public: Path, name: str) -> None:
    """Write a site's key pair in OpenSSH form: ECDSA, because Flower refuses Ed25519 here."""
    key = ec.generate_private_key(ec.SECP384R1())
    _write_key(private, key, serialization.PrivateFormat.OpenSSH)
    line = key.public_key().public_bytes(_OPENSSH, serialization.PublicFormat.OpenSSH)
    write_file(public, f"{line.decode()} {name}\n".encode())


def san(host: str) -> str:
    """Return a host as openssl writes it in a certificate's names.

    >>> san("127.0.0.1"), san("fl.example.org")
    ('IP:127.0.0.1', 'DNS:fl.example.org')
    """
    return f"{'IP' if isinstance(_name(host), x509.IPAddress) else 'DNS'}:{host}"


def _name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _write_key(path: Path, key: Key, form: serialization.PrivateFormat) -> None:
    write_file(path, key.private_bytes(_PEM, form, serialization.NoEncryption()), mode=PRIVATE)
