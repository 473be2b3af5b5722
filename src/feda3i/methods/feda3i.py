"""FedA3I: measure how each site draws, and weight better annotators more, most in deep stages.

Paper
    Wu, Sun, Yan, Yu: FedA3I: Annotation Quality-Aware Aggregation for Federated Medical Image
    Segmentation against Heterogeneous Annotation Noise, AAAI 2024.
What changes against FedAvg
    After T1 rounds of FedAvg the server surveys the sites once: how hard does the warmed-up model
    find a site's masks just inside and just outside their contour (q, Eq. 3 and 4)? A mixture of
    two Gaussians over all q parts the sites into those that draw larger and those that draw smaller
    (Eq. 5); within a group, sites that show less noise get more weight, and the two groups
    share the weight r : 1 - r (Eq. 6). From then on stage j of L is averaged with
    alpha_j * quality + (1 - alpha_j) * quantity weights, alpha_j = (j - 1) / (L - 1) (Eq. 7).
    Training at the sites is unchanged.
Few sites
    With few sites two groups are a guess, and the rule may give one site half of the weight and
    another none: engine.max_share bounds that, and redrawn masks (method=redraw) are the better
    choice (docs/results.md).
What stays at the site
    Images, masks, predictions, the losses of single cases.
What leaves the site
    The network's parameters, the number of cases, the mean training loss; in answer to the survey,
    per class: the mean inner and outer loss and how many cases had a contour. Of ten cases or
    more, also six counts for the audit: objects that the model sees, that were drawn, pairs of the
    two, pairs of different classes, cases, and empty cases in which the model sees an object.
Cost
    FedAvg plus one evaluation of the training cases per survey.
Departures
    Where the paper and its code are silent or would stop (a group of one site or of none, equal
    strengths, missing sites, empty masks, several classes), feda3i.quality says what happens and
    the event log says why. The mixture is seeded and started ten times. t1 = "auto" starts when
    the training loss has settled, because a survey with an unfinished model says nothing.
"""

from collections.abc import Mapping
from dataclasses import fields
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from feda3i import quality
from feda3i.core.messages import Floats, Numbers, Plan, Replies, Wire
from feda3i.core.server import Gathered, Server
from feda3i.core.site import Site
from feda3i.methods.base import Method

Share = Annotated[float, Field(ge=0, le=1)]
SURVEY = ("inner_loss", "outer_loss", "usable_cases")
OBJECTS = "objects"
SETTLED = 0.05  # with t1 = "auto": survey once the loss falls by less than this share in two rounds


class FedA3I(Method):
    """Annotation quality-aware, stage-wise aggregation."""

    t1: Annotated[int, Field(ge=1)] | Literal["auto"] = 10
    """Rounds of FedAvg before the survey, or ``"auto"``: survey once the mean training loss fell
    by less than 5 % in two rounds, at half of the run at the latest."""
    r: Share | Literal["share"] = 0.5
    """The weight of the group that draws larger, 0..1; ``"share"``: the group's share of sites."""
    weighting: Literal["full", "intra", "fedavg"] = "full"
    """``"full"`` is the paper's method, ``"intra"`` its ablation without InterGW (r = "share"),
    ``"fedavg"`` no quality at all."""
    power: Annotated[float, Field(gt=0)] = 1.0
    """Of the ramp: ``alpha_j = ((j - 1) / (L - 1)) ** power``."""

    begins_as_fedavg: ClassVar[bool] = True
    wire: ClassVar[Wire] = Wire(
        survey=(*SURVEY, OBJECTS), per_class=SURVEY, lists={OBJECTS: len(fields(quality.Counts))}
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.weighting == "intra" and self.r not in (0.5, "share"):
            raise ValueError("weighting = 'intra' means r = 'share'; another r has no effect")
        return self

    def plan(self, server: Server, round: int) -> Plan:
        """Warm up; then survey whom it does not know yet, and weigh by quality."""
        t1 = server.state.get("t1") if self.t1 == "auto" else self.t1
        if t1 is None or round <= t1 or self.weighting == "fedavg":
            return Plan()
        state = server.state
        if "early" not in state:
            state["surveys"], state["early"] = {}, server.params
        # Sites that were away or joined later are asked with the same early model as the others:
        # later models have begun to learn the noise, so that their answers could not be compared.
        unknown = tuple(site for site in sorted(server.sites) if site not in state["surveys"])
        return Plan(survey=unknown, survey_params=state["early"], gather=True)

    def digest(self, server: Server, replies: Replies) -> None:
        """Rate all sites after a survey; after a fit, see whether the warm-up has settled."""
        if replies.task == "survey":
            for reply in replies:
                server.state["surveys"][reply.site] = survey_of(reply.numbers).to_dict()
            self._rate(server)
        elif self.t1 == "auto" and "t1" not in server.state:
            self._watch(server, float(replies.share_of_cases() @ replies.number("loss")))

    def _rate(self, server: Server) -> None:
        found = {
            site: quality.SiteSurvey.from_dict(survey)
            for site, survey in sorted(server.state["surveys"].items())
        }
        if not found:
            return
        counts = {site: float(server.sites[site]) for site in found}
        rating = self.rate(found, seed=int(server.rng("grouping").integers(2**31)))
        server.state["rating"] = rating.to_dict()
        objects = {site: one.objects.sent() for site, one in found.items() if one.objects}
        said = quality.survey_lines(rating, list(counts.values()))
        server.record(survey={**rating.to_dict(), OBJECTS: objects}, said=said)

    def rate(self, surveys: Mapping[str, quality.SiteSurvey], seed: int) -> quality.Rating:
        """Return groups and quality weights of all sites: the place for a rule of your own."""
        r = "share" if self.weighting == "intra" else self.r
        return quality.rate_sites(surveys, r=r, seed=seed)

    def weights(self, server: Server, replies: Replies, gathered: Gathered) -> Floats:
        """Return ``(site, stage)``: quantity at the input, quality at the output (Eq. 7)."""
        quantity = replies.share_of_cases()
        if "rating" not in server.state:  # nobody answered the survey
            return quantity
        rating = quality.Rating.from_dict(server.state["rating"])
        by_quality = rating.weights(replies.sites, replies.cases)
        server.record(effective_sites=quality.effective_sites(by_quality))
        return quality.mix_by_stage(quantity, by_quality, len(server.stages), self.power)

    def _watch(self, server: Server, loss: float) -> None:
        losses = server.state.setdefault("losses", [])
        losses.append(loss)
        has_settled = len(losses) > 2 and losses[-3] - loss < SETTLED * losses[-3]
        if has_settled or 2 * len(losses) >= server.rounds:
            server.state["t1"] = len(losses)
            server.record(t1=len(losses), t1_reason="settled" if has_settled else "half of the run")

    def phases(self, rounds: int, state: Mapping[str, Any]) -> dict[str, int | None]:
        """Return when quality weights begin: after the warm-up, if a survey gives reason to."""
        t1 = state.get("t1") if self.t1 == "auto" else self.t1
        is_idle = "surveys" in state and "rating" not in state  # nobody answered
        first = None if t1 is None or is_idle else t1 + 1
        if self.weighting == "fedavg":
            return {}  # asked for: an ablation without quality
        return {"weighting by quality (FedA3I is FedAvg before)": first}

    def survey(self, site: Site) -> Numbers:
        """Return the site's learning difficulty inside and outside its contours (Eq. 3, 4)."""
        masks = ((logits, site.given_masks(batch.positions)) for batch, logits in site.predict())
        found = quality.survey_site(
            masks, classes=site.classes, objects=True, spacing=site.voxels()
        )
        told = zip(SURVEY, [*found.q.T, found.cases], strict=True)
        objects = quality.Counts() if found.objects is None else found.objects
        return {**{name: column.tolist() for name, column in told}, OBJECTS: objects.sent()}


def survey_of(numbers: Numbers) -> quality.SiteSurvey:
    """Return a site's survey from the numbers on the wire."""
    table = np.array([numbers[name] for name in SURVEY], dtype=np.float64)
    objects = quality.Counts.received(np.asarray(numbers[OBJECTS], np.float64).tolist())
    return quality.SiteSurvey(table[:2].T, table[2], objects)


METHOD = FedA3I
