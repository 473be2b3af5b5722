"""The audit of annotation quality: who draws larger or smaller, and how sure that is.

``measure_cases`` compares masks with a model case by case (at the site), ``judge_sites`` compares
sites with each other (anywhere), ``second_looks`` ranks a site's cases (at the site). Nothing here
trains or reads files except ``cross_fit`` and ``sources``.
"""
