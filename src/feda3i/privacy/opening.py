"""The server's part of secure aggregation: hand keys on, add up, and take the masks off the sum."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations, islice
from typing import Any

import numpy as np

from feda3i.core.messages import Floats
from feda3i.errors import RunError, WireError
from feda3i.privacy import sealing
from feda3i.privacy.fixed import Integers
from feda3i.privacy.rules import context_hash, hex_in, table_in
from feda3i.privacy.vault import LETTER, pair_key, self_key

TRIES = 200
"""Choices of shares that are tried before a secret counts as lost; more than one only if a site
sent a wrong share."""


def new_attempt() -> str:
    """Return a new name for an attempt at a round; letters and masks are bound to it."""
    return secrets.token_hex(16)


@dataclass(frozen=True)
class Offer:
    """What a site answered to ``keys``."""

    key: str
    check: str
    letters: Mapping[str, str]

    @classmethod
    def read(cls, message: Mapping[str, Any], others: Iterable[str]) -> Offer:
        """Read an answer from outside; raise ``WireError`` unless there is one letter for each."""
        letters = table_in(message, "letters")
        if set(letters) != set(others) or set(message) != {"key", "check", "letters"}:
            raise WireError("expected a key, a commitment and one letter to each other site")
        return cls(
            hex_in(message["key"], "key", sealing.KEY),
            hex_in(message["check"], "check", sealing.KEY),
            {site: hex_in(letter, "letters", LETTER) for site, letter in letters.items()},
        )


@dataclass
class Opening:
    """One attempt at a round."""

    attempt: str
    peers: Mapping[str, str]  # identities of all sites that were told of each other
    offers: Mapping[str, Offer]  # of those that answered: they take part
    needed: int  # how many must stay to the end
    weights: dict[str, list[float]] = field(default_factory=dict)
    context: str = ""
    total: Integers | None = None

    @property
    def keys(self) -> dict[str, str]:
        """Return the public keys of this round by site."""
        return {site: offer.key for site, offer in sorted(self.offers.items())}

    def settle(self, round: int, table: Floats, params: str) -> None:
        """Fix the weights ``(site, stage)``, in order of the sites that take part."""
        sites = sorted(self.offers)
        self.weights = dict(zip(sites, table.tolist(), strict=True))
        plan = context_hash(round, sites, table.tolist(), params)
        self.context = context_hash(plan, self.attempt, self.keys)

    def order(self, site: str) -> dict[str, Any]:
        """Return what a site is told with its fit order."""
        letters = {s: offer.letters[site] for s, offer in self.offers.items() if s != site}
        return {
            "attempt": self.attempt,
            "keys": self.keys,
            "weights": self.weights,
            "letters": letters,
        }

    def add(self, masked: Integers) -> None:
        """Add a masked vector."""
        if self.total is None:
            self.total = masked.copy()
        else:
            np.add(self.total, masked, out=self.total)

    def open(self, stayed: Sequence[str], answers: Mapping[str, Mapping[str, Any]]) -> Integers:
        """Return the sum without masks, from the checked shares of the sites that stayed."""
        assert self.total is not None
        total, keys = self.total.copy(), self.keys
        for site in stayed:
            shares = {holder: answer["self_shares"][site] for holder, answer in answers.items()}
            seed = self._recover(shares, sealing.commitment, self.offers[site].check)
            sealing.add_mask(total, self_key(seed, self.context), -1)
        for site in set(self.offers) - set(stayed):
            shares = {holder: answer["key_shares"][site] for holder, answer in answers.items()}
            key = sealing.key_of(self._recover(shares, _public, self.offers[site].key))
            for other in stayed:
                pair = pair_key(sealing.agree(key, keys[other]), self.context)
                sealing.add_mask(total, pair, -1 if other < site else 1)
        return total

    def _recover(
        self, shares: Mapping[str, str], seen: Callable[[bytes], str], expected: str
    ) -> bytes:
        numbers = {site: number for number, site in enumerate(sorted(self.peers), 1)}
        for holders in islice(combinations(sorted(shares), self.needed), TRIES):
            parts = {numbers[holder]: bytes.fromhex(shares[holder]) for holder in holders}
            secret = sealing.put_together(parts)
            if seen(secret) == expected:
                return secret
        raise RunError(
            f"the sum cannot be unmasked: {len(shares)} sites sent shares, {self.needed} right "
            f"ones are needed, and they do not fit together; resume to play the round again"
        )


def _public(seed: bytes) -> str:
    return sealing.public_of(sealing.key_of(seed))


def check_shares(answer: Mapping[str, Any], lost: Sequence[str], stayed: Sequence[str]) -> None:
    """Raise ``WireError`` unless an answer to ``unmask`` holds one share of every site."""
    expected = {"key_shares": set(lost), "self_shares": set(stayed)}
    if set(answer) != set(expected):
        raise WireError("expected shares of keys and of seeds")
    for name, sites in expected.items():
        table = table_in(answer, name)
        if set(table) != sites:
            raise WireError(f"expected '{name}' of {len(sites)} sites, found {len(table)}")
        for share in table.values():
            hex_in(share, name, sealing.SEED)
