"""What the demo says of a survey whose truth is known."""

import numpy as np

from feda3i.commands.demo import bias_text
from feda3i.quality import SiteSurvey, rate_sites


def test_the_residual_bias_is_that_of_the_weights(federation):
    """Two sites alone: each group has one, and half of the say."""
    names = federation.names()[:2]
    surveys = {
        name: SiteSurvey(np.array([row]), np.array([4]))
        for name, row in zip(names, ([0.9, 0.2], [0.2, 0.8]), strict=True)
    }
    mu = dict(zip(names, (3.0, -2.0), strict=True))
    text = bias_text(rate_sites(surveys, r=0.2).to_dict(), mu, federation)
    cases = [len(federation.sites[name]) for name in names]
    plain = (3.0 * cases[0] - 2.0 * cases[1]) / sum(cases)
    assert f"draw {plain:+.2f} px too large on average" in text
    assert "last stage -1.00 px" in text
