"""What differential privacy has cost each site so far: kept with the server's state, and told.

The account is part of every checkpoint, under ``privacy`` in ``server.state``.
"""

from __future__ import annotations

import math

from feda3i.core.messages import Replies
from feda3i.core.server import Server
from feda3i.engine.job import Job
from feda3i.privacy.accountant import Spending
from feda3i.privacy.shield import blocks_of


def spending_of(job: Job, server: Server) -> Spending:
    """Return the account of a run; what is counted goes into the server's state."""
    section = job.recipe.privacy
    numbers = len(job.method.wire.fit) + section.send_loss
    kept = server.state.setdefault("privacy", {})
    return Spending(section.noise_multiplier, blocks_of(job.layout), numbers, kept)


def account_fit(job: Job, server: Server, replies: Replies) -> None:
    """Count a training round, and record what all rounds so far come to."""
    share = dict(zip(replies.sites, replies.share_of_cases().tolist(), strict=True))
    found = server.facts.get("weights", share)
    weights = {s: w if isinstance(w, list) else [w] for s, w in found.items()}
    asked = [*replies.sites, *(miss.site for miss in replies.missing)]
    spending = spending_of(job, server)
    spending.fit(asked, weights, job.is_secure)
    server.record(privacy=spending.worst(job.recipe.privacy.delta))


def notes_of_privacy(job: Job, server: Server) -> list[str]:
    """Return what the run's privacy came to, in words."""
    if not job.recipe.privacy.on:
        return []
    worst = spending_of(job, server).worst(job.recipe.privacy.delta)
    lines = [
        f"differential privacy of a whole site, delta {worst['delta']:g}: epsilon "
        f"{_shown(worst['epsilon_server'])} against the server, "
        f"{_shown(worst['epsilon_models'])} against those who see only the models"
    ]
    if job.recipe.privacy.randomness == "seed":
        lines.append(
            "the noise came from the run's seed, as in simulations: whoever knows the seed can "
            "take it off again; privacy.randomness=site for real sites"
        )
    return lines


def _shown(epsilon: float) -> str:
    return "infinite (no noise)" if math.isinf(epsilon) else f"{epsilon:.3g}"
