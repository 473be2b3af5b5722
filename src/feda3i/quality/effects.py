"""How each site draws beside the others: a random-effects meta-analysis of measured offsets.

o_i = b + a_i + N(0, e_i^2), a_i ~ N(0, tau^2): o_i is what was measured at site i and e_i its
standard error; b is shared by all, a_i the site's own habit. Trusted masks tell b. Without any, b
lies between the mean of the sites and where careful annotators draw: the more the sites differ, the
less their mean says, because most of them may err to the same side. A site should move its contours
by what is reliably its own, E[a_i] = (o_i - b) tau^2 / (tau^2 + e_i^2): sites that cannot tell
stay, and so do careful ones (tau = 0).

All lengths are in pixels of images of 256 a side.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from feda3i.quality.measure import FARTHEST, Offset
from feda3i.quality.numbers import FloatArray

CAREFUL, CAREFUL_SD = 1.0, 2.0
"""Where careful annotators draw beside the border of best contrast: -2 to +4 px in dermoscopy,
breast ultrasound, cells under a microscope and synthetic images (-5 around optic discs)."""
LOPSIDED = 0.8  # the mean of sites errs by this part of tau: four of five may draw alike
ANOTHER = 0.4  # of the objects' radius: if all draw farther off, it is another border (disc, cup)
UNSEEN = 4.0  # px by which the model's contours may err for a site, where too few can tell
WIDE = 1.96  # standard errors on either side of a 95 % interval


@dataclass(frozen=True)
class Effects:
    """What the offsets of all sites say together, and each site's own part."""

    b: float  # the offset that is shared; ``NaN`` if no site could tell
    b_error: float
    tau: float  # standard deviation of the sites' own offsets
    own: FloatArray  # ``(site,)`` E[a_i]; 0 where a site cannot tell
    error: FloatArray  # ``(site,)`` its standard error, ``NaN`` where a site cannot tell
    reason: str = ""  # why nobody should move, if nobody should
    is_trusted: bool = False

    @property
    def moves(self) -> FloatArray:
        """Return by how many pixels each site's contours should move outwards, ``(site,)``."""
        return np.zeros_like(self.own) if self.reason else -self.own


def spread_of_sites(offset: FloatArray, error: FloatArray, centre: float | None = None) -> float:
    """Return tau^2 by Paule and Mandel: the t at which the sites' Q has its expected value.

    ``offset`` and ``error`` (above 0) are ``(site,)``, ``centre`` is the shared offset if it is
    known; by default it is the weighted mean, which costs a degree of freedom.

    >>> round(spread_of_sites(np.array([-3.0, 0.0, 3.0]), np.full(3, 1e-3)), 3)
    9.0
    """
    expected = len(offset) - (centre is None)

    def surplus(t: float) -> float:
        weight = 1 / (error**2 + t)
        middle = float(weight @ offset / weight.sum()) if centre is None else centre
        return float(weight @ (offset - middle) ** 2) - expected

    if expected < 1 or surplus(0.0) <= 0:
        return 0.0
    high = float(np.square(offset - (offset.mean() if centre is None else centre)).sum())
    from scipy.optimize import brentq

    while surplus(high) > 0:  # rounding only: at the sum of squares Q is 1 at most
        high *= 2
    return float(brentq(surplus, 0.0, high, xtol=1e-9))


def site_effects(
    measured: Sequence[Offset], trusted: Offset | None = None, is_trusted: Sequence[bool] = ()
) -> Effects:
    """Return each site's own offset by the random-effects model.

    ``measured`` are the offsets of the sites, ``trusted`` that of masks which are known to be right
    (it is then b), all in pixels at 256. Where ``is_trusted``, a site's own masks are right: such
    sites give b, and have no offset of their own.
    """
    offset, error, radius = (
        np.array([getattr(one, name) for one in measured], dtype=np.float64)
        for name in ("offset", "error", "radius")
    )
    right = np.array(is_trusted or [False] * len(measured), dtype=np.bool_)
    if trusted is None and right.any():
        trusted = _mean([one for one, yes in zip(measured, right, strict=True) if yes])
    known = np.isfinite(offset) & np.isfinite(error)
    own, own_error = np.zeros(len(offset)), np.full(len(offset), np.nan)
    if not known.any():
        return Effects(math.nan, math.nan, 0.0, own, own_error, "no site can tell")
    o, e = offset[known], error[known]
    if trusted is not None:
        b, b_error, reason = _by_trusted(trusted)
        free = ~right[known]
        tau2 = spread_of_sites(o[free], e[free], b) if free.any() else 0.0
    else:
        tau2 = spread_of_sites(o, e)
        weight = 1 / (e**2 + tau2)
        mean = float(weight @ o / weight.sum())
        belief = np.array([1 / CAREFUL_SD**2, 1 / (1 / float(weight.sum()) + LOPSIDED**2 * tau2)])
        b, b_error = float(belief @ [CAREFUL, mean] / belief.sum()), 1 / math.sqrt(belief.sum())
        tau2 = spread_of_sites(o, e, b) if tau2 else 0.0
        reason = _why_not(o, mean, radius[known])
    part = tau2 / (tau2 + e**2)
    own[known] = part * (o - b)
    own_error[known] = np.sqrt(part * e**2 + (part * np.nan_to_num(b_error)) ** 2)
    own[right] = 0.0
    if trusted is None:
        own = np.clip(own, -np.ptp(o), np.ptp(o))  # never more than the sites differ
    return Effects(b, b_error, math.sqrt(tau2), own, own_error, reason, trusted is not None)


def _by_trusted(trusted: Offset) -> tuple[float, float, str]:
    """Return b, its error, and why nobody should move by it; empty if they should."""
    if not trusted.is_known:
        return 0.0, math.nan, f"trusted masks: {trusted.reason}"
    reason = (
        f"trusted masks lie {trusted.offset:+.1f} px (at 256) from the border that the images "
        f"show, at most {FARTHEST:.0f} is plausible: it is not the one that is drawn here"
    )
    return trusted.offset, trusted.error, reason if abs(trusted.offset) > FARTHEST else ""


def _why_not(offset: FloatArray, mean: float, radii: FloatArray) -> str:
    """Return why the border in the images is not the one that the sites draw; empty if it is."""
    if len(offset) < 2:
        return "one site, and no trusted masks: there is nothing to compare it with"
    radius = float(np.nanmedian(radii)) if np.isfinite(radii).any() else math.inf
    around = max(radius, radius - mean)  # radius of the border that was found, if larger
    if abs(mean) > ANOTHER * around:
        return (
            f"all sites lie {mean:+.0f} px (at 256) from the border in their images, and their "
            f"objects have a radius of {radius:.0f}: it is the border of something else"
        )
    return ""


def _mean(offsets: Sequence[Offset]) -> Offset:
    """Return the mean offset of trusted sites, weighted by their cases."""
    known = [(one.cases, one.offset, one.error) for one in offsets if one.is_known]
    if not known:
        return Offset.unknown(0, "no trusted site can tell")
    cases, offset, error = np.array(known, dtype=np.float64).T
    share = cases / cases.sum()
    spread = float(np.sqrt(np.square(share * error).sum()))
    return Offset(float(share @ offset), spread, int(cases.sum()))


def differ_by_chance(offset: FloatArray, error: FloatArray) -> float:
    """Return the p-value of Cochran's Q: how often sites that draw alike would differ so much."""
    from scipy.stats import chi2

    if len(offset) < 2:
        return 1.0
    weight = 1 / np.square(error)
    mean = float(weight @ offset / weight.sum())
    return float(chi2.sf(float(weight @ np.square(offset - mean)), len(offset) - 1))


def combined(
    edges: Sequence[Offset],
    contour: Sequence[Offset],
    trusted_edges: Offset | None = None,
    trusted_contour: Offset | None = None,
) -> list[Offset]:
    """Return one offset per site from both estimators, in pixels outside the border in the images.

    The model's contour lies a constant away from that border: the difference on trusted masks, or
    the mean difference on the sites that both can tell. What the two differ by beyond their errors
    is charged to the model, so that it adds precision where it agrees and never overrules.
    """
    pairs = [(a, b) for a, b in zip(edges, contour, strict=True) if a.is_known and b.is_known]
    gap = np.array([a.offset - b.offset for a, b in pairs])
    noise = np.array([a.error**2 + b.error**2 for a, b in pairs])
    constant, doubt = 0.0, UNSEEN**2 if any(one.is_known for one in edges) else 0.0
    if len(pairs):
        weight = 1 / (noise + UNSEEN**2)
        constant = float(weight @ gap / weight.sum())
    if len(pairs) > 2:
        doubt = max(0.0, float(gap.var(ddof=1)) - float(noise.mean()))
    if trusted_edges is not None and trusted_contour is not None and trusted_contour.is_known:
        constant = (trusted_edges.offset if trusted_edges.is_known else 0) - trusted_contour.offset
    return [_joined(a, b, constant, doubt) for a, b in zip(edges, contour, strict=True)]


def _joined(edges: Offset, contour: Offset, constant: float, doubt: float) -> Offset:
    if not contour.is_known:
        return edges
    error = math.sqrt(contour.error**2 + doubt)
    moved = replace(contour, offset=contour.offset + constant, error=error)
    if not edges.is_known:
        return moved
    weights = np.array([1 / edges.error**2, 1 / max(error, 1e-6) ** 2])
    offset = float(weights @ [edges.offset, moved.offset] / weights.sum())
    joint = float(1 / math.sqrt(weights.sum()))
    return Offset(offset, joint, max(edges.cases, contour.cases), radius=edges.radius)
