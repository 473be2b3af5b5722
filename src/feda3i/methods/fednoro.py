"""FedNoRo: find noisy sites, distil the global network into them, and weigh them by distance.

Paper
    Wu et al., FedNoRo: Towards Noise-Robust Federated Learning by Addressing Class Imbalance and
    Label Noise Heterogeneity, IJCAI 2023. Row "FedNoRo" of the FedA3I paper.
What changes against FedAvg
    Rounds 1..s1: nothing. Then a survey: every site measures the mean loss of the global network on
    its foreground and on its background. The server scales each column to 0..1 and divides the
    sites by a mixture of two Gaussians; nine fits vote. The group with the larger losses is noisy.
    From then on a noisy site trains with lambda_t * KL(teacher || own) + (1 - lambda_t) * CE. The
    teacher is the received network, sharpened by a temperature below one; lambda_t = a *
    exp(-5 (1 - x)^2), where x goes from 0 at round s1 to 1 at round ``end``. Clean sites train as
    before. A noisy site's weight falls with the distance D_i of its network to the nearest clean
    one: w_i is proportional to n_i exp(-D_i / max D), with D = 0 for clean sites.
What leaves the site
    The network's parameters, the number of cases, the mean training loss; once, two mean losses per
    class (``foreground``, ``background``).
Departures
    Plain cross-entropy instead of the logit-adjusted one, as in the FedA3I paper. Classes are those
    of pixels. KL is a mean over pixels. The distance is the sum over tensors of the norm of their
    difference, as in the released code (the paper writes one norm). The teacher predicts each case
    once per round, as it is; augmentation moves the prediction. If no clean or no noisy site
    answered, weights are FedAvg's. A site that missed the survey is surveyed as soon as it answers,
    with the network of the survey; until then it trains and counts as in FedAvg.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from torch import Tensor

from feda3i import losses
from feda3i.core.messages import Floats, Numbers, Plan, Replies, Wire
from feda3i.core.server import Gathered, Server
from feda3i.core.site import Batch, Site
from feda3i.methods.base import Method
from feda3i.methods.foreseen import foresee, foreseen
from feda3i.methods.two_groups import vote_high_group

TEMPERATURE = 0.8  # divides the teacher's logits; values below one sharpen its predictions


class FedNoRo(Method):
    """Detection, distillation at noisy sites, distance-aware weights."""

    s1: Annotated[int, Field(ge=1)] = 10
    """Rounds of FedAvg before the survey."""
    a: Annotated[float, Field(ge=0, le=1)] = 0.8
    """Largest share of the teacher in the loss of noisy sites; 0 trains them like the others."""
    end: Annotated[int, Field(ge=1)] = 49
    """Round from which the teacher's share is constant."""

    begins_as_fedavg: ClassVar[bool] = True
    wire: ClassVar[Wire] = Wire(
        survey=("foreground", "background"),
        settings=("is_noisy", "teacher_share"),
        per_class=("foreground", "background"),
    )

    def plan(self, server: Server, round: int) -> Plan:
        """Train as FedAvg, then survey, then send flags and weigh by distance."""
        if round <= self.s1:
            return Plan()
        known = server.state.get("losses", {})
        noisy: list[str] = server.state.get("noisy", [])
        return Plan(
            survey=tuple(site for site in sorted(server.sites) if site not in known),
            survey_params=server.state.get("surveyed"),
            gather=bool(noisy),
            settings={"is_noisy": False, "teacher_share": self.teacher_share(round - 1)},
            site_settings={site: {"is_noisy": True} for site in noisy},
        )

    def teacher_share(self, done: int) -> float:
        """Return lambda_t after this many rounds."""
        if self.end <= self.s1:
            return self.a
        x = (min(max(done, self.s1), self.end) - self.s1) / (self.end - self.s1)
        return self.a * math.exp(-5 * (1 - x) ** 2)

    def digest(self, server: Server, replies: Replies) -> None:
        """Divide all surveyed sites into clean and noisy ones."""
        if replies.task != "survey" or not len(replies):
            return
        server.state.setdefault("surveyed", server.params)
        known: dict[str, list[float]] = server.state.setdefault("losses", {})
        both = np.hstack([replies.number("foreground"), replies.number("background")])
        known.update(zip(replies.sites, both.tolist(), strict=True))
        sites = sorted(known)
        is_noisy = vote_high_group(np.array([known[site] for site in sites]))
        noisy = [site for site, flag in zip(sites, is_noisy, strict=True) if flag]
        server.state["noisy"] = noisy
        server.record(noisy=noisy, losses=known)

    def weights(self, server: Server, replies: Replies, gathered: Gathered) -> Floats:
        """Return weights by ``n_i * exp(-D_i / max D)`` (DaAgg); FedAvg's if all D are 0."""
        noisy, known = set(server.state["noisy"]), server.state["losses"]
        is_noisy = np.array([site in noisy for site in replies.sites])
        is_clean = np.array([site in known and site not in noisy for site in replies.sites])
        spans = [(entry.start, entry.stop) for entry in server.layout.floats]
        distances = distances_to_clean(gathered.rows, spans, is_noisy, is_clean)
        part = replies.cases * np.exp(-distances / (distances.max() or 1.0))
        return np.asarray(part / part.sum())

    def phases(self, rounds: int, state: Mapping[str, Any]) -> dict[str, int | None]:
        """Return when noisy sites are treated apart: after the warm-up, if there are any."""
        first = None if state.get("noisy") == [] else self.s1 + 1
        return {"treating noisy sites apart (FedNoRo is FedAvg before)": first}

    def survey(self, site: Site) -> Numbers:
        """Return the mean loss of the received network on foreground and background pixels."""
        sums, counts = np.zeros((2, 2, site.classes))
        for batch, logits in site.predict():
            pixels = losses.pixel_cross_entropy(logits, batch.masks).flatten(2)
            masks = batch.masks.flatten(2)
            for row, part in enumerate((masks, 1 - masks)):
                sums[row] += (pixels * part).double().sum(dim=(0, 2)).cpu().numpy()
                counts[row] += part.double().sum(dim=(0, 2)).cpu().numpy()
        means = np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)
        return {"foreground": means[0].tolist(), "background": means[1].tolist()}

    def fit(self, site: Site) -> Numbers:
        """Train; a noisy site also learns from the network it received."""
        share = float(site.settings.get("teacher_share", 0.0))
        if not site.settings.get("is_noisy", False) or share == 0:
            return super().fit(site)
        # Before the first step the network is still the received one: the teacher.
        taught = foresee(site, lambda _, logits: logits)
        taught /= TEMPERATURE

        def step(batch: Batch) -> Tensor:
            logits = site.network(batch.images)
            teacher = batch.follow(foreseen(taught, batch), smooth=True)
            own = self.criterion(logits, batch.masks)
            return share * losses.bernoulli_kl(teacher, logits).mean() + (1 - share) * own

        return site.train(step)


def distances_to_clean(
    rows: NDArray[np.float32],
    spans: Sequence[tuple[int, int]],
    is_noisy: NDArray[np.bool_],
    is_clean: NDArray[np.bool_],
) -> Floats:
    """Return D_i: how far each noisy site's network is from the nearest clean one, else 0.

    A distance of rows ``(site, value)`` is the sum of the norms of the differences of their
    tensors, which are at ``spans`` ``(start, stop)``.
    """
    distances = np.zeros(len(rows))
    if not is_clean.any():
        return distances
    for i in np.flatnonzero(is_noisy):
        total = np.zeros(int(is_clean.sum()))
        for start, stop in spans:
            gap = rows[is_clean, start:stop] - rows[i, start:stop]
            total += np.sqrt(np.einsum("kv,kv->k", gap, gap, dtype=np.float64))
        distances[i] = total.min()
    return distances


METHOD = FedNoRo
