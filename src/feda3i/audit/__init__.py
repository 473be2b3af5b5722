"""The audit of annotation quality: who draws larger or smaller, and how sure that is.

``measure_cases`` compares masks with a model case by case (at the site), ``judge_sites`` compares
sites with each other (anywhere), ``second_looks`` ranks a site's cases (at the site). Nothing here
trains or reads files except ``cross_fit`` and ``sources``.
"""

from feda3i.audit.case_rows import CaseRow, measure_cases
from feda3i.audit.estimators import ESTIMATORS, Look, contour_gap
from feda3i.audit.findings import Audit, SiteFinding
from feda3i.audit.judge import judge_sites
from feda3i.audit.looks import second_looks

__all__ = [
    "ESTIMATORS",
    "Audit",
    "CaseRow",
    "Look",
    "SiteFinding",
    "contour_gap",
    "judge_sites",
    "measure_cases",
    "second_looks",
]
