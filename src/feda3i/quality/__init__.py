"""How well each site's masks are drawn, from two averages per site; usable without any training.

``survey_site`` runs at a site, ``rate_sites`` (``group_sites`` and ``site_weights`` per class) at
the server, ``mix_by_stage`` makes the weights of the aggregation.
"""

from feda3i.quality.balance import Balance, balance_sites
from feda3i.quality.grouping import RULES, Grouping, group_sites, strengths
from feda3i.quality.offset import contour_offset, site_offset
from feda3i.quality.rating import Part, Rating, balance_by_offset, rate_sites, restrict
from feda3i.quality.regions import Regions, boundary_regions, find_regions
from feda3i.quality.say import say_lines
from feda3i.quality.survey import STATISTICS, SiteSurvey, learning_difficulty, survey_site
from feda3i.quality.weights import (
    effective_sites,
    mix_by_stage,
    shares,
    site_weights,
    stage_ramp,
)

__all__ = [
    "RULES",
    "STATISTICS",
    "Balance",
    "Grouping",
    "Part",
    "Rating",
    "Regions",
    "SiteSurvey",
    "balance_by_offset",
    "balance_sites",
    "boundary_regions",
    "contour_offset",
    "effective_sites",
    "find_regions",
    "group_sites",
    "learning_difficulty",
    "mix_by_stage",
    "rate_sites",
    "restrict",
    "say_lines",
    "shares",
    "site_offset",
    "site_weights",
    "stage_ramp",
    "strengths",
    "survey_site",
]
