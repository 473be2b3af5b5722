"""How well each site's masks are drawn, from two averages per site; usable without any training.

``survey_site`` runs at a site, ``rate_sites`` (``group_sites`` and ``site_weights`` per class) at
the server, ``mix_by_stage`` makes the weights of the aggregation.
"""

from feda3i.quality.balance import Balance, balance_sites
from feda3i.quality.edges import SIDE, colour_profile, edge_offset, longest_side
from feda3i.quality.effects import Effects, combined, site_effects, spread_of_sites
from feda3i.quality.grouping import Grouping, group_sites, strengths
from feda3i.quality.measure import (
    Offset,
    agreement,
    calibrate_offset,
    edge_offsets,
    measure_edges,
    measure_model,
    rescaled,
)
from feda3i.quality.objects import Counts
from feda3i.quality.offset import contour_offset, site_offset
from feda3i.quality.rating import Part, Rating, balance_by_offset, rate_sites
from feda3i.quality.regions import Regions, boundary_regions, find_regions
from feda3i.quality.say import doubts, say_lines
from feda3i.quality.shift import redraw, shift_mask
from feda3i.quality.survey import SiteSurvey, learning_difficulty, survey_site
from feda3i.quality.weights import effective_sites, mix_by_stage, shares, site_weights, stage_ramp

__all__ = [
    "SIDE",
    "Balance",
    "Counts",
    "Effects",
    "Grouping",
    "Offset",
    "Part",
    "Rating",
    "Regions",
    "SiteSurvey",
    "agreement",
    "balance_by_offset",
    "balance_sites",
    "boundary_regions",
    "calibrate_offset",
    "colour_profile",
    "combined",
    "contour_offset",
    "doubts",
    "edge_offset",
    "edge_offsets",
    "effective_sites",
    "find_regions",
    "group_sites",
    "learning_difficulty",
    "longest_side",
    "measure_edges",
    "measure_model",
    "mix_by_stage",
    "rate_sites",
    "redraw",
    "rescaled",
    "say_lines",
    "shares",
    "shift_mask",
    "site_effects",
    "site_offset",
    "site_weights",
    "spread_of_sites",
    "stage_ramp",
    "strengths",
    "survey_site",
]
