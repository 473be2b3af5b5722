import numpy as np
import pytest

from feda3i.core.messages import Params
from feda3i.methods.iopfl import IOPFL


def over(alpha: float, *seen: float) -> float:
    method, personal = IOPFL(alpha=alpha), None
    for value in seen:
        trained = Params(np.array([value]), np.array([7]))
        personal = method.moved(trained if personal is None else personal, trained)
    return float(personal.values[0])


@pytest.mark.parametrize(("alpha", "expected"), [(0.9, 1.39), (0.1, 3.79), (0.0, 4.0), (1.0, 1.0)])
def test_a_personal_model_is_an_average_over_time(alpha: float, expected: float) -> None:
    assert over(alpha, 1.0, 2.0, 4.0) == pytest.approx(expected)
