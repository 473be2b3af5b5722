"""Redraw: every site measures how far it draws outside the border, moves its contours, then trains.

Paper
    None: an idea of this project. docs/offset.md has its figures, and what was tried and lost.
What changes against FedAvg
    Before its first training a site measures, from its images and masks alone, by how many pixels
    it draws outside (or inside) the border of best contrast, with a standard error (estimator
    ``quality.measure_edges``). If that is more than chance, it trains on masks with the contours
    moved back by as much; the given masks stay as they are, and no object is shrunk by more than
    0.6 of its inner radius. Everything else is done by the other method that ``then`` names, FedAvg
    by default, which sees the moved masks only. FedA3I then weighs what offset remains.
The border that is meant
    Good annotators do not draw on the border of best contrast exactly: in dermoscopy some 3 px
    outside of it, at 256 px a side. Trusted masks tell (b0). Give the number, ``b0``, that
    ``quality.measure_edges`` finds for them; or name sites whose masks are trusted, ``trusted``:
    their offset is b0 from the second round on. Without either, the border in the image is taken
    for the one that is meant, and sites that draw within ``slack`` px of it are left alone.
Cases of several sizes
    With train.patch every case is measured and moved at its own size, and all pixels are at 256 of
    its longest side: an offset of 5 px moves the contours of a case of 512 by 10 px. Patches are
    then centred on moved masks.
When nothing is moved
    Fewer than ``fewest`` cases with a contour; no border, a diffuse one or two of them in the
    images; trusted masks that lie more than 8 px from the border (the image shows another one than
    is drawn here, as with a cup in its disc); an offset below ``threshold`` standard errors, or
    below 2 px.
What stays at the site
    Images, masks, the moved masks, what the other method keeps.
What leaves the site
    What the other method sends, and after every training for each class: the offset in px (at 256
    with train.patch), its standard error (both 0 if it cannot be told) and the number of cases it
    rests on (0 likewise).
Cost
    Once about three distance transforms per case; then that of the other method.
Departures
    None.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Annotated, Any, ClassVar

import numpy as np
from pydantic import Field, PrivateAttr
from torch import Tensor, nn

from feda3i import quality
from feda3i.core.messages import Floats, Numbers, Params, Plan, Replies, Wire
from feda3i.core.server import Gathered, Server
from feda3i.core.site import Site
from feda3i.errors import RecipeError, nearest, shown
from feda3i.methods import REGISTRY
from feda3i.methods.base import Method, make_method
from feda3i.methods.parts.measured import side_of
from feda3i.methods.parts.redrawn import measured_at, offset_of, redrawn, row_of

SENT = ("offset", "offset_error", "offset_cases")
BORDER = ("border", "border_error", "border_cases")
OWN = Wire(fit=SENT, settings=BORDER, per_class=SENT)


class _JoinedWire:
    """What leaves a site: of the class what this method adds, of an object the other's too."""

    def __get__(self, method: Redraw | None, kind: type[Redraw]) -> Wire:
        if method is None:
            return OWN
        other = method.other.wire
        return Wire(
            fit=(*other.fit, *OWN.fit),
            survey=other.survey,
            settings=(*other.settings, *OWN.settings),
            networks=other.networks,
            per_class=(*other.per_class, *OWN.per_class),
        )


class _FollowsAugmentation:
    """Whether what is kept of cases follows them: redrawn masks do, the other method decides."""

    def __get__(self, method: Redraw | None, kind: type[Redraw]) -> bool:
        return True if method is None else method.other.follows_augmentation


class Redraw(Method):
    """Move each site's contours by its own offset, then let another method train."""

    then: str = "fedavg"
    """The method that trains on the moved masks, by its name; no plug-in files."""
    options: dict[str, Any] = Field(default={})
    """Options of that method, as a table: ``redraw.options.t1=5``."""
    b0: tuple[Annotated[float, Field(allow_inf_nan=False)], ...] = ()
    """Offset of trusted masks from the border in the image, px at 256: one number per class."""
    b0_error: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.5
    """Standard error of ``b0``, px at 256."""
    trusted: tuple[str, ...] = ()
    """Sites whose masks are trusted: they stay as they are, and their offset is b0."""
    threshold: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 2.0
    """Standard errors below which an offset is taken for chance."""
    slack: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 4.0
    """Without trusted masks: px at 256 that good annotators may draw off the border."""
    fewest: Annotated[int, Field(ge=2)] = 8
    """Cases with a contour below which a site's offset cannot be told."""

    follows_augmentation: ClassVar[Any] = _FollowsAugmentation()
    wire: ClassVar[Any] = _JoinedWire()
    _other: Method = PrivateAttr()

    def model_post_init(self, context: Any) -> None:
        """Make the other method, so that its options are checked with ours."""
        if self.b0 and self.trusted:
            raise RecipeError("redraw: expected b0 or trusted, found both; leave one out")
        if REGISTRY.is_code(self.then):  # a run folder from elsewhere must not name code here
            raise RecipeError(
                f"redraw.then: expected the name of an installed method, found {shown(self.then)}; "
                f"a package can offer one by the entry point 'feda3i.methods'"
            )
        own = {} if self.loss == "ce" else {"loss": self.loss}
        self._other = make_method(self.then, {**own, **self.options})
        if isinstance(self._other, Redraw):
            raise RecipeError("redraw.then: expected another method, found 'redraw' itself")

    @property
    def other(self) -> Method:
        """Return the method that trains on the moved masks."""
        return self._other

    # -- server -----------------------------------------------------------------------------------

    def start(self, server: Server) -> None:
        """Check what a recipe alone cannot tell, and keep a place for the offsets."""
        if self.b0 and len(self.b0) not in (1, server.format.classes):
            raise RecipeError(
                f"redraw.b0: expected one number for each of {server.format.classes} classes, "
                f"found {len(self.b0)}"
            )
        for site in sorted(set(self.trusted) - set(server.sites)):
            raise RecipeError(
                f"redraw.trusted: there is no site '{site}'{nearest(site, server.sites)} "
                f"Known: {', '.join(sorted(server.sites)[:10])}"
            )
        server.state["offsets"], server.state["moved"] = {}, {}
        self.other.start(server)

    def plan(self, server: Server, round: int) -> Plan:
        """Add to the other method's plan where the border lies that is meant, once it is known."""
        return self._with_border(server, self.other.plan(server, round))

    def revise(self, server: Server, round: int, plan: Plan) -> Plan:
        """Let the other method change its plan; where the border lies is still needed."""
        return self._with_border(server, self.other.revise(server, round, plan))

    def _with_border(self, server: Server, plan: Plan) -> Plan:
        border = self._border(server)
        if border is None:
            return plan
        return replace(plan, settings={**plan.settings, **_columns(BORDER, border)})

    def _border(self, server: Server) -> list[quality.Offset] | None:
        """Return the offset of trusted masks by class.

        An empty list: nobody has trusted masks. ``None``: those who have did not answer yet.
        """
        classes, scale = server.format.classes, side_of(server.format) / quality.SIDE
        if self.b0:
            b0 = np.resize(np.array(self.b0), classes) * scale
            return [quality.Offset(b, self.b0_error * scale, 1) for b in b0.tolist()]
        if not self.trusted:
            return []
        found = [server.state["offsets"].get(site) for site in self.trusted]
        rows = np.array([one for one in found if one is not None], dtype=np.float64)
        return [_mean(rows[:, k]) for k in range(classes)] if len(rows) else None

    def digest(self, server: Server, replies: Replies) -> None:
        """Keep the offsets that sites report for the first time, and log what follows."""
        self.other.digest(server, replies)
        known = server.state["offsets"]
        new = [reply for reply in replies if replies.task == "fit" and reply.site not in known]
        for reply in new:
            known[reply.site] = np.stack([reply.numbers[name] for name in SENT], axis=1).tolist()
        if new:
            server.record(offsets={reply.site: known[reply.site] for reply in new})
        border = self._border(server)
        if border is not None and replies.task == "fit":
            self._log_moves(server, border)

    def _log_moves(self, server: Server, border: list[quality.Offset]) -> None:
        """Log by how many pixels sites move their contours, whenever that is news."""
        side = side_of(server.format)
        moved = {
            site: self._by(site, [offset_of(*row) for row in rows], border, side)
            for site, rows in sorted(server.state["offsets"].items())
        }
        if moved != server.state["moved"]:
            server.state["moved"] = moved
            server.record(moved=moved)

    def _by(
        self, site: str, measured: list[quality.Offset], border: list[quality.Offset], side: int
    ) -> list[float]:
        """Return by how many pixels a site's contours move outwards; trusted ones stay."""
        if site in self.trusted:
            return [0.0] * len(measured)
        trusted: list[quality.Offset | None] = [*border] or [None] * len(measured)
        return [
            quality.correction(one, other, side, self.threshold, self.slack)
            for one, other in zip(measured, trusted, strict=True)
        ]

    def weights(self, server: Server, replies: Replies, gathered: Gathered) -> Floats:
        """Return the other method's weights."""
        return self.other.weights(server, replies, gathered)

    def merge(self, server: Server, replies: Replies, gathered: Gathered) -> Params:
        """Return what the other method makes of the replies."""
        return self.other.merge(server, replies, gathered)

    def models(self, server: Server) -> dict[str, Params]:
        """Return the other method's models."""
        return self.other.models(server)

    def phases(self, rounds: int, state: Mapping[str, Any]) -> dict[str, int | None]:
        """Return the other method's phases, and from when on masks are moved if not at once."""
        own = {"moving contours": 2} if self.trusted else {}
        return {**self.other.phases(rounds, state), **own}

    # -- site -------------------------------------------------------------------------------------

    def network(self, build: Callable[[int], nn.Module]) -> nn.Module:
        """Return the other method's network."""
        return self.other.network(build)

    def predict(self, network: nn.Module, images: Tensor) -> Tensor:
        """Return the other method's logits."""
        return self.other.predict(network, images)

    def fit(self, site: Site) -> Numbers:
        """Train as the other method does, on moved masks; report the offset."""
        measured = measured_at(site, self.fewest)
        numbers = self.other.fit(self._moved(site))
        return {**numbers, **_columns(SENT, measured)}

    def act(self, site: Site) -> None:
        """Act as the other method does, on moved masks."""
        self.other.act(self._moved(site))

    def survey(self, site: Site) -> Numbers:
        """Answer the other method's survey about moved masks."""
        return self.other.survey(self._moved(site))

    def _moved(self, site: Site) -> Site:
        if "border" not in site.settings:
            return site
        measured = measured_at(site, self.fewest)
        told = zip(*(site.settings[name] for name in BORDER), strict=True)
        border = [offset_of(*row) for row in told]
        side = side_of(site.predictor.format)
        return redrawn(site, self._by(site.name, measured, border, side))


def _columns(names: tuple[str, ...], offsets: list[quality.Offset]) -> dict[str, list[float]]:
    """Return offsets of classes as lists by name: offset, standard error, cases."""
    rows = np.array([row_of(one) for one in offsets], dtype=np.float64).reshape(-1, len(names))
    return {name: rows[:, k].tolist() for k, name in enumerate(names)}


def _mean(rows: Floats) -> quality.Offset:
    """Return the mean offset of trusted sites from ``(site, 3)``, weighted by their cases."""
    known = rows[rows[:, 2] > 0]
    if not len(known):
        return quality.Offset.unknown(0, "no trusted site could tell")
    share = known[:, 2] / known[:, 2].sum()
    error = float(np.sqrt(((share * known[:, 1]) ** 2).sum()))
    return quality.Offset(float(share @ known[:, 0]), error, int(known[:, 2].sum()))


METHOD = Redraw
