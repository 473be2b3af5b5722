"""The cryptography of secure aggregation, made of parts of two libraries and of nothing else.

``cryptography``: X25519 (agree on a secret), HKDF (make keys of it), ChaCha20 (masks) and
ChaCha20-Poly1305 (sealed letters). ``pycryptodome``: Shamir's secret sharing. All secrets come from
the operating system's randomness: masks cancel, so no number of a run depends on them.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

import numpy as np
from Crypto.Protocol.SecretSharing import Shamir
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from feda3i.errors import WireError
from feda3i.privacy.fixed import Integers

SEED = 16
"""Bytes of a secret that is shared out: 128 bits, the field of the library's sharing."""
KEY = 32
_NONCE = 12
_BLOCK = 1 << 16
_ZEROS = bytes(8 * _BLOCK)


def new_seed() -> bytes:
    """Return a new secret of 128 bits."""
    return os.urandom(SEED)


def stretch(secret: bytes, purpose: str) -> bytes:
    """Return a key of 256 bits for one purpose from a secret."""
    return HKDF(algorithm=SHA256(), length=KEY, salt=None, info=purpose.encode()).derive(secret)


def key_of(seed: bytes) -> X25519PrivateKey:
    """Return the private key that a seed stands for."""
    return X25519PrivateKey.from_private_bytes(stretch(seed, "feda3i mask key"))


def public_of(key: X25519PrivateKey) -> str:
    """Return a public key as hexadecimal digits."""
    return key.public_key().public_bytes_raw().hex()


def commitment(seed: bytes) -> str:
    """Return what identifies a seed once it is known; it reveals nothing about the seed."""
    return stretch(seed, "feda3i commitment").hex()


def agree(key: X25519PrivateKey, public: str) -> bytes:
    """Return the secret that two sites share, from the own private and the other's public key."""
    try:
        return key.exchange(X25519PublicKey.from_public_bytes(bytes.fromhex(public)))
    except ValueError:
        raise WireError("the public key is not valid") from None


def add_mask(vector: Integers, key: bytes, sign: int) -> None:
    """Add a key's mask to a vector in place, or take it off (``sign`` -1), modulo 2^64."""
    stream = Cipher(algorithms.ChaCha20(key, bytes(16)), None).encryptor()
    operation = np.add if sign > 0 else np.subtract
    for start in range(0, len(vector), _BLOCK):
        block = vector[start : start + _BLOCK]
        drawn = np.frombuffer(stream.update(_ZEROS[: 8 * len(block)]), "<u8")
        operation(block, drawn, out=block)


def seal_letter(secret: bytes, text: bytes, about: str) -> str:
    """Return a text that only a holder of the secret can read, with ``about`` authenticated."""
    nonce = os.urandom(_NONCE)
    letter = ChaCha20Poly1305(stretch(secret, "feda3i letter"))
    return (nonce + letter.encrypt(nonce, text, about.encode())).hex()


def open_letter(secret: bytes, letter: str, about: str) -> bytes:
    """Return what ``seal_letter`` was given; raise ``WireError`` if anything differs."""
    data = bytes.fromhex(letter)
    try:
        return ChaCha20Poly1305(stretch(secret, "feda3i letter")).decrypt(
            data[:_NONCE], data[_NONCE:], about.encode()
        )
    except (InvalidTag, ValueError):
        raise WireError(
            "a sealed letter that was not written for this site, round and key: the server "
            "handed on a false key, or the sites' identities were mixed up"
        ) from None


def share_out(secret: bytes, needed: int, names: Sequence[str]) -> dict[str, bytes]:
    """Return one share per name; any ``needed`` of them give the secret, fewer say nothing."""
    shares = Shamir.split(needed, len(names), secret, False)
    return {name: share for name, (_, share) in zip(names, shares, strict=True)}


def put_together(shares: Mapping[int, bytes]) -> bytes:
    """Return the secret from shares by their number, counted from 1."""
    secret: bytes = Shamir.combine(list(shares.items()), False)
    return secret
