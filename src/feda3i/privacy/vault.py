"""A site's part of secure aggregation: its secrets, and what it refuses.

The protocol is that of Bonawitz et al. (CCS 2017) with double masks, in three messages a round:

``keys``    The site learns who takes part and their identities. It draws a key for masks shared
            with each other site and a seed for a mask of its own, shares both secrets out (Shamir)
            and seals each share for its holder. Out: public key, commitment, sealed shares.
``fit``     It opens the shares it holds, checks the weights of all, trains, multiplies by its own
            weight and adds all masks. Out: the masked integers.
``unmask``  It learns who was lost since. Out: for a lost site the share of its key, for the others
            the share of their own seed; never both of one site, and only one answer per round.

Everything that sites must agree on (who, which weights, which parameters) is part of what the masks
are made from: if the server tells two sites different things, their masks do not cancel, and it is
left with noise.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from feda3i.basics.files import make_private, write_file
from feda3i.core.messages import Floats
from feda3i.errors import RunError, WireError
from feda3i.privacy import sealing
from feda3i.privacy.fixed import Integers
from feda3i.privacy.rules import (
    Dropouts,
    check_weights_of,
    context_hash,
    hex_in,
    names_in,
    needed_of,
    note_once,
    table_in,
)

LETTER = 2 * sealing.SEED + 28
"""Bytes of a sealed letter: two shares, a nonce and an authentication tag."""


@dataclass(frozen=True)
class Vault:
    """One site's secrets."""

    site: str
    home: Path
    """Folder of its identity (``identity.key``, ``identity.pub``) and of the others' identities as
    it knows them (``peers.json``); it outlives runs."""
    secrets: Path  # folder for the secrets of one run
    # Of the recipe's section ``[secure]``
    dropouts: Dropouts
    max_weight: float

    # -- identity ---------------------------------------------------------------------------------

    def identity(self) -> X25519PrivateKey:
        """Return this site's lasting key; it is made when it is asked for the first time."""
        path = self.home / "identity.key"
        if not path.exists():
            make_private(self.home)
            write_file(path, os.urandom(sealing.KEY), mode=0o600)
        key = X25519PrivateKey.from_private_bytes(path.read_bytes())
        public = self.home / "identity.pub"
        if not public.exists():
            write_file(public, f"{sealing.public_of(key)}\n".encode())
        return key

    def introduce(self) -> dict[str, Any]:
        """Return the public part of the identity."""
        return {"identity": sealing.public_of(self.identity())}

    def _check_peers(self, peers: Mapping[str, str]) -> None:
        """Hold every other site to the identity it had when it was met first.

        Sites that want to be sure of the first time as well compare ``identity.pub`` by telephone
        and write ``peers.json`` themselves.
        """
        path = self.home / "peers.json"
        known: dict[str, str] = json.loads(path.read_text()) if path.exists() else {}
        for site, identity in peers.items():
            if known.get(site, identity) != identity:
                raise WireError(
                    f"the identity of site '{site}' is not the one this site knows; if that site "
                    f"was set up again, remove it from peers.json after you have asked its people"
                )
        if peers.items() - known.items():
            write_file(path, json.dumps({**known, **peers}, indent=2, sort_keys=True).encode())

    # -- keys -------------------------------------------------------------------------------------

    def offer(self, round: int, message: Mapping[str, Any]) -> dict[str, Any]:
        """Answer ``keys``: draw this round's secrets and share them out."""
        attempt = hex_in(message.get("attempt"), "attempt", 16)
        peers = {s: hex_in(k, "peers", 32) for s, k in sorted(table_in(message, "peers").items())}
        own = self.identity()
        if peers.get(self.site) != sealing.public_of(own):
            raise WireError("the server knows another identity of this site; was its state lost?")
        needed = needed_of(len(peers), self.dropouts)
        self._check_peers(peers)
        key_seed, self_seed = sealing.new_seed(), sealing.new_seed()
        public = sealing.public_of(sealing.key_of(key_seed))
        names = list(peers)
        of_key = sealing.share_out(key_seed, needed, names)
        of_self = sealing.share_out(self_seed, needed, names)
        letters = {
            peer: sealing.seal_letter(
                sealing.agree(own, identity),
                of_key[peer] + of_self[peer],
                _about(attempt, round, self.site, peer, public),
            )
            for peer, identity in peers.items()
            if peer != self.site
        }
        self._keep(
            {
                "round": round,
                "attempt": attempt,
                "peers": peers,
                "key_seed": key_seed.hex(),
                "self_seed": self_seed.hex(),
                "own": (of_key[self.site] + of_self[self.site]).hex(),
            }
        )
        return {"key": public, "check": sealing.commitment(self_seed), "letters": letters}

    # -- fit --------------------------------------------------------------------------------------

    def enter(self, round: int, message: Mapping[str, Any], stages: int, params: str) -> Floats:
        """Take in who takes part with which weights; return this site's own ``(stage,)``.

        Called before the training: whatever is wrong with the order is known by then. ``params`` is
        the hash of the received parameters.
        """
        kept = self._kept(round, message)
        keys = {s: hex_in(k, "keys", 32) for s, k in sorted(table_in(message, "keys").items())}
        weights = table_in(message, "weights")
        needed = needed_of(len(kept["peers"]), self.dropouts)
        if not set(keys) <= set(kept["peers"]) or len(keys) < needed or self.site not in keys:
            raise WireError(
                f"expected this site and at least {needed} in all of those it has shared its "
                f"secrets with, found {len(keys)}"
            )
        if set(weights) != set(keys):
            raise WireError("expected one row of weights per site that takes part")
        table = check_weights_of(weights, stages, self.max_weight)
        plan = context_hash(round, sorted(keys), table.tolist(), params)
        context = context_hash(plan, kept["attempt"], keys)
        if kept.get("context", context) != context:
            raise WireError(
                "this site has already masked its update for other weights, sites or parameters; "
                "two sums of one round would tell the sites apart"
            )
        if "context" not in kept:
            shares = self._open_letters(round, kept, keys, table_in(message, "letters"))
            self._keep({**kept, "keys": keys, "plan": plan, "context": context, "shares": shares})
        own: Floats = table[sorted(keys).index(self.site)]
        return own

    def _open_letters(
        self, round: int, kept: Mapping[str, Any], keys: Mapping[str, str], letters: Any
    ) -> dict[str, str]:
        """Return the shares that this site holds; each letter vouches for its writer's key."""
        own = self.identity()
        shares = {self.site: kept["own"]}
        for peer, public in keys.items():
            if peer != self.site:
                letter = hex_in(letters.get(peer), "letters", LETTER)
                about = _about(kept["attempt"], round, peer, self.site, public)
                secret = sealing.agree(own, kept["peers"][peer])
                shares[peer] = sealing.open_letter(secret, letter, about).hex()
        return shares

    def mask(self, round: int, vector: Integers) -> Integers:
        """Return the vector with this site's masks; ``enter`` comes first."""
        kept = self._read()
        if kept.get("round") != round or "context" not in kept:
            raise RunError("this site's secrets of the round are gone; the round is played again")
        key = sealing.key_of(bytes.fromhex(kept["key_seed"]))
        masked = vector.copy()
        for peer, public in kept["keys"].items():
            if peer != self.site:
                pair = pair_key(sealing.agree(key, public), kept["context"])
                sealing.add_mask(masked, pair, 1 if self.site < peer else -1)
        sealing.add_mask(masked, self_key(bytes.fromhex(kept["self_seed"]), kept["context"]), 1)
        return masked

    # -- unmask -----------------------------------------------------------------------------------

    def open(self, round: int, message: Mapping[str, Any]) -> dict[str, Any]:
        """Answer ``unmask``: hand out one share of every site, once and for one list of sites."""
        kept = self._kept(round, message)
        if "context" not in kept:
            raise WireError("asked to unmask a sum to which this site has not added its part")
        stayed, sites = names_in(message, "stayed"), sorted(kept["keys"])
        needed = needed_of(len(kept["peers"]), self.dropouts)
        if not set(stayed) <= set(sites) or len(stayed) < needed or self.site not in stayed:
            raise WireError(
                f"expected at least {needed} sites that stayed, this one among them, found "
                f"{len(stayed)}"
            )
        self._note_opened(round, context_hash(kept["plan"], stayed))
        halves = {site: _halves(kept["shares"][site]) for site in sites}
        return {
            "key_shares": {site: halves[site][0] for site in sites if site not in stayed},
            "self_shares": {site: halves[site][1] for site in stayed},
        }

    def _note_opened(self, round: int, what: str) -> None:
        """Remember which sum of a round this site helped to open; refuse to open another one."""
        refusal = (
            f"this site has already helped to open another sum of round {round}: of other sites, "
            f"weights or parameters. Two sums of one round would tell the sites apart; resume with "
            f"the sites that were there"
        )
        note_once(self.secrets / "opened.json", str(round), what, refusal)

    # -- on disk ----------------------------------------------------------------------------------

    def _keep(self, secrets: Mapping[str, Any]) -> None:
        """Replace the secrets of the round before: they are needed no more."""
        make_private(self.secrets)
        write_file(self.secrets / "round.json", json.dumps(secrets).encode(), mode=0o600)

    def _read(self) -> dict[str, Any]:
        try:
            kept: dict[str, Any] = json.loads((self.secrets / "round.json").read_text())
        except FileNotFoundError:
            return {}
        except (OSError, ValueError) as error:
            raise RunError(f"the site's secrets cannot be read: {type(error).__name__}") from None
        return kept

    def _kept(self, round: int, message: Mapping[str, Any]) -> dict[str, Any]:
        kept = self._read()
        if (kept.get("round"), kept.get("attempt")) != (round, message.get("attempt")):
            raise WireError(f"this site has no secrets for this attempt at round {round}")
        return kept


def pair_key(secret: bytes, context: str) -> bytes:
    """Return the key of the mask that two sites share."""
    return sealing.stretch(secret, f"feda3i pair {context}")


def self_key(seed: bytes, context: str) -> bytes:
    """Return the key of a site's own mask."""
    return sealing.stretch(seed, f"feda3i self {context}")


def _about(attempt: str, round: int, writer: str, reader: str, public: str) -> str:
    return json.dumps([attempt, round, writer, reader, public])


def _halves(shares: str) -> tuple[str, str]:
    middle = len(shares) // 2
    return shares[:middle], shares[middle:]
