"""Set test cases aside: a share of every source, patients kept whole."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence

from feda3i.errors import RecipeError
from feda3i.seeding import rng

TEST_SHARE = 0.2  # 8:2, as the paper divides BREAST


def check_share(share: float) -> None:
    """Raise ``RecipeError`` unless some cases can be set aside and some be kept.

    >>> check_share(0.2)
    """
    if not 0 < share < 1:
        raise RecipeError(f"expected a test share between 0 and 1, found {share}")


def split_cases(
    sources: Sequence[str],
    groups: Sequence[str],
    given: Sequence[str] | None = None,
    *,
    share: float = TEST_SHARE,
    seed: int = 0,
) -> list[str]:
    """Return ``"train"`` or ``"test"`` for every case.

    In each source whole groups are drawn until at least ``share`` of the cases (rounded up) are
    test cases, so images of one patient never lie on both sides. What is given stays.

    >>> split_cases(["a"] * 5 + ["b"] * 6, [str(i) for i in range(11)]).count("test")
    3
    """
    check_share(share)
    result = list(given or [""] * len(sources))
    members: dict[str, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    for i, (source, group) in enumerate(zip(sources, groups, strict=True)):
        if not result[i]:
            members[source][group].append(i)
    for source in sorted(members):
        names = sorted(members[source])
        wanted = math.ceil(share * sum(len(members[source][name]) for name in names))
        taken = 0
        for place in rng(seed, "split", source).permutation(len(names)):
            cases = members[source][names[place]]
            side = "test" if taken < wanted else "train"
            taken += len(cases) if side == "test" else 0
            for i in cases:
                result[i] = side
    return result
