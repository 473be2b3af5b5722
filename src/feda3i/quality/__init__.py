"""How well each site's masks are drawn, from two averages per site; usable without any training.

``survey_site`` runs at a site, ``rate_sites`` (``group_sites`` and ``site_weights`` per class) at
the server, ``mix_by_stage`` makes the weights of the aggregation.
"""

from feda3i.quality.edges import SIDE, colour_profile, longest_side
from feda3i.quality.effects import Effects, combined, site_effects
from feda3i.quality.measure import Offset, contour_offset, measure_edges, rescaled, site_offset
from feda3i.quality.objects import Counts
from feda3i.quality.rating import Rating, rate_sites, survey_lines
from feda3i.quality.shift import redraw, shift_mask
from feda3i.quality.survey import SiteSurvey, boundary_regions, learning_difficulty, survey_site
from feda3i.quality.weights import (
    Grouping,
    effective_sites,
    group_sites,
    mix_by_stage,
    shares,
    site_weights,
)

__all__ = [
    "SIDE",
    "Counts",
    "Effects",
    "Grouping",
    "Offset",
    "Rating",
    "SiteSurvey",
    "boundary_regions",
    "colour_profile",
    "combined",
    "contour_offset",
    "effective_sites",
    "group_sites",
    "learning_difficulty",
    "longest_side",
    "measure_edges",
    "mix_by_stage",
    "rate_sites",
    "redraw",
    "rescaled",
    "shares",
    "shift_mask",
    "site_effects",
    "site_offset",
    "site_weights",
    "survey_lines",
    "survey_site",
]
