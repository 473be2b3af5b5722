"""A round's training with secure aggregation: keys, masked fits, and the sum unmasked."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from feda3i.core.messages import NO_PARAMS, Floats, Missing, Params, Plan, Replies, Reply, Task
from feda3i.core.server import Gathered
from feda3i.core.wire import MAX_BUFFER, MAX_COUNT, MAX_VALUE
from feda3i.errors import RunError, WireError
from feda3i.privacy.fixed import Integers, restore
from feda3i.privacy.opening import Offer, Opening, check_shares, new_attempt
from feda3i.privacy.rules import check_weights_of, digest_of, hex_in, needed_of

if TYPE_CHECKING:
    from feda3i.engine.loop import Round

ReadT = TypeVar("ReadT")


class SecureFit:
    """One round: who takes part, with which weights, and what their sum is."""

    def __init__(self, round: Round, plan: Plan) -> None:
        self.round, self.plan, self.server = round, plan, round.server
        self.section = round.job.recipe.secure
        self.missing: list[Missing] = []

    def play(self) -> tuple[Replies, Params]:
        """Return the replies without parameters, and the mean of the sites that stayed."""
        try:
            opening = self._exchange_keys(self.round.who_trains(self.plan))
            self._weigh(opening)
        except WireError as error:
            raise RunError(f"round {self.round.number}: {error}{self._reasons()}") from None
        kept, counts = self._fit(opening)
        stayed = [reply.site for reply in kept]
        total = self._open(opening, stayed)
        lost = sorted(set(opening.offers) - set(stayed))
        self.server.record(
            secure={"sites": len(opening.peers), "needed": opening.needed, "lost": lost}
        )
        share = self.round.job.recipe.engine.max_share
        replies = Replies("fit", self.round.number, tuple(kept), tuple(self.missing), share)
        return replies, self._mean(opening, stayed, total, counts)

    # -- keys -------------------------------------------------------------------------------------

    def _exchange_keys(self, sites: Sequence[str]) -> Opening:
        """Let the sites draw keys; if one is lost meanwhile, begin again without it."""
        known = self.server.identities
        new = [site for site in sites if site not in known]
        known |= self._ask("introduce", new, {}, _identity)
        present = [site for site in sites if site in known]
        while True:  # each turn has fewer sites
            needed = needed_of(len(present), self.section.dropouts)
            peers = {site: known[site] for site in present}
            message: dict[str, Any] = {"attempt": new_attempt(), "peers": peers}
            offers = self._offers(message)
            if len(offers) == len(present):
                return Opening(message["attempt"], peers, offers, needed)
            for site in set(present) - set(offers):
                known.pop(site)  # it may come back with another identity
            present = sorted(offers)

    def _offers(self, message: dict[str, Any]) -> dict[str, Offer]:
        sites = set(message["peers"])

        def read(reply: Reply) -> Offer:
            return Offer.read(reply.secure, sites - {reply.site})

        return self._ask("keys", sorted(sites), message, read)

    def _weigh(self, opening: Opening) -> None:
        """Fix the weights before the training: they may depend on cases and surveys only."""
        round, server = self.round, self.server
        sites = sorted(opening.offers)
        items = tuple(Reply("fit", round.number, s, server.sites[s], {}) for s in sites)
        known = Replies("fit", round.number, items, (), round.job.recipe.engine.max_share)
        weights: Floats = known.share_of_cases()
        if self.plan.gather:
            weights = round.method.weights(server, known, Gathered(server.layout, 0))
        stages = len(server.stages)
        table = weights if weights.ndim == 2 else np.repeat(weights[:, None], stages, axis=1)
        opening.settle(round.number, table, digest_of(server.params))
        check_weights_of(opening.weights, stages, self.section.max_weight)

    # -- fit and sum ------------------------------------------------------------------------------

    def _fit(self, opening: Opening) -> tuple[list[Reply], Any]:
        kept: list[Reply] = []
        counts = np.zeros(self.server.layout.integers, np.int64)
        sites = sorted(opening.offers)
        asked = self.round.ask(
            "fit", sites, self.plan, self.server.params, opening.order, opening.needed
        )
        for answer in asked:
            if isinstance(answer, Missing):
                self.missing.append(answer)
                continue
            masked: Any = answer.params
            opening.add(masked.values)
            counts = np.maximum(counts, masked.counts)
            kept.append(replace(answer, params=None))
            self.round.listener.site(len(kept), len(sites))
        self.round.check_quorum(kept, self.missing)
        if len(kept) < opening.needed:
            raise RunError(
                f"round {self.round.number}: {len(kept)} of {len(sites)} sites stayed, secure "
                f"aggregation needs {opening.needed} (secure.dropouts).{self._reasons()} Resume to "
                f"play the round again"
            )
        return kept, counts

    def _open(self, opening: Opening, stayed: Sequence[str]) -> Integers:
        lost = [site for site in opening.offers if site not in stayed]
        message = {"attempt": opening.attempt, "stayed": sorted(stayed)}

        def read(reply: Reply) -> Mapping[str, Any]:
            check_shares(reply.secure, lost, stayed)
            return reply.secure

        answers = self._ask("unmask", stayed, message, read, opening.needed)
        if len(answers) < opening.needed:
            raise RunError(
                f"round {self.round.number}: {len(answers)} sites helped to unmask the sum, "
                f"{opening.needed} must (secure.dropouts).{self._reasons()} Resume to play the "
                f"round again"
            )
        return opening.open(stayed, answers)

    def _mean(
        self, opening: Opening, stayed: Sequence[str], total: Integers, counts: Any
    ) -> Params:
        layout = self.server.layout
        table = np.array([opening.weights[site] for site in stayed])
        sums = table.sum(axis=0) if len(stayed) < len(opening.offers) else np.ones(table.shape[1])
        if not np.all(sums > 0):
            raise RunError(
                f"round {self.round.number}: the sites that stayed have no weight in a stage; "
                f"resume to play the round again"
            )
        rows = (table / sums).tolist()
        if self.plan.gather:
            self.server.record(weights=dict(zip(stayed, rows, strict=True)))
        params = Params(restore(total, sums, layout.spans(), layout.dtype), counts)
        try:
            layout.check_limits(params, MAX_VALUE, MAX_BUFFER, MAX_COUNT)
        except WireError as error:
            raise RunError(
                f"round {self.round.number}: the sum of the sites' networks makes no sense "
                f"({error}): a site sent something other than it was asked for. Nobody can see "
                f"which one; a run with secure.on=false and engine.guard could"
            ) from None
        return params

    def _ask(
        self,
        task: Task,
        sites: Sequence[str],
        message: Mapping[str, Any],
        read: Callable[[Reply], ReadT],
        least: int = 0,
    ) -> dict[str, ReadT]:
        """Return what is read from good answers about keys, by site; others count as missing."""
        found = {}
        for answer in self.round.ask(task, sites, Plan(), NO_PARAMS, lambda site: message, least):
            try:
                if isinstance(answer, Missing):
                    raise WireError(answer.reason)
                found[answer.site] = read(answer)
            except WireError as error:
                if task != "unmask":  # its part is in the sum already
                    self.missing.append(Missing(answer.site, str(error)))
        return found

    def _reasons(self) -> str:
        said = "; ".join(f"{miss.site}: {miss.reason}" for miss in self.missing[:3])
        return f" {said}." if said else ""


def _identity(reply: Reply) -> str:
    if set(reply.secure) != {"identity"}:
        raise WireError("expected an identity, and nothing else")
    return hex_in(reply.secure["identity"], "identity", 32)
