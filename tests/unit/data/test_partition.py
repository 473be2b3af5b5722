import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from feda3i.data.partition import (
    by_folder,
    by_source,
    dirichlet,
    divide,
    iid,
    site_names,
    split_cases,
)
from feda3i.errors import DataError, RecipeError

sizes = st.tuples(st.integers(1, 60), st.integers(1, 60)).filter(lambda t: t[0] >= t[1])


def covers(parts, n):
    return np.array_equal(np.sort(np.concatenate(list(parts.values()))), np.arange(n))


@given(sizes, st.integers(0, 99))
def test_iid_deals_every_case_once_in_equal_parts(size, seed):
    n, sites = size
    parts = iid(n, sites, np.random.default_rng(seed))
    counts = [len(part) for part in parts.values()]
    assert list(parts) == site_names(sites) == sorted(parts)
    assert covers(parts, n)
    assert max(counts) - min(counts) <= 1


@given(sizes, st.floats(0.05, 50), st.integers(0, 99))
def test_dirichlet_deals_every_case_once_and_leaves_no_site_empty(size, alpha, seed):
    n, sites = size
    parts = dirichlet(n, sites, np.random.default_rng(seed), alpha)
    assert len(parts) == sites
    assert covers(parts, n)
    assert min(len(part) for part in parts.values()) >= 1


def test_small_alpha_is_less_equal():
    spread = [
        np.mean(
            [
                np.std([len(p) for p in dirichlet(400, 20, np.random.default_rng(s), a).values()])
                for s in range(10)
            ]
        )
        for a in (0.1, 1.0, 100.0)
    ]
    assert spread[0] > 1.5 * spread[1] > 3 * spread[2]


@given(st.lists(st.sampled_from("abc"), min_size=3, max_size=60), st.data())
def test_by_source_keeps_sources_apart_and_in_proportion(sources, data):
    kinds = len(set(sources))
    sites = data.draw(st.integers(kinds, len(sources)))
    parts = by_source(sources, sites, np.random.default_rng(0))
    assert covers(parts, len(sources))
    assert all(len({sources[i] for i in part}) == 1 for part in parts.values())
    for kind in set(sources):
        ideal = sites * sources.count(kind) / len(sources)
        given_ = sum(sources[part[0]] == kind for part in parts.values())
        assert given_ >= 1
        # Sources too small for their share push others by at most the number of sources.
        assert abs(given_ - ideal) < kinds


def test_paper_sizes():
    skin = iid(2000, 50, np.random.default_rng(0))
    assert {len(part) for part in skin.values()} == {40}
    sources = ["busi"] * 517 + ["busis"] * 449 + ["udiat"] * 130
    breast = by_source(sources, 50, np.random.default_rng(0))
    per_source = [
        sum(sources[p[0]] == s for p in breast.values()) for s in ("busi", "busis", "udiat")
    ]
    assert per_source == [24, 20, 6]


def test_seeds_matter_and_repeat():
    same = [iid(50, 5, np.random.default_rng(1))["site-01"].tolist() for _ in range(2)]
    other = iid(50, 5, np.random.default_rng(2))["site-01"].tolist()
    assert same[0] == same[1] != other


def test_more_sites_than_cases_is_an_error():
    rng = np.random.default_rng(0)
    for call in (
        lambda: iid(3, 4, rng),
        lambda: dirichlet(3, 4, rng),
        lambda: by_source(["a", "b", "b"], 4, rng),
    ):
        with pytest.raises(DataError, match="4 sites need"):
            call()
    with pytest.raises(DataError, match="one site per source"):
        by_source(["a", "b", "c"], 2, rng)
    with pytest.raises(RecipeError, match="at least one site"):
        iid(3, 0, rng)


def test_by_folder_needs_folders():
    assert {k: v.tolist() for k, v in by_folder(["x", "y", "x"]).items()} == {"x": [0, 2], "y": [1]}
    with pytest.raises(DataError, match="one folder per site"):
        by_folder(["x", ""])


def test_divide_by_name():
    common = {"sources": ["a"] * 6, "folders": ["f"] * 6, "rng": np.random.default_rng(0)}
    assert len(divide("iid", sites=2, **common)) == 2
    assert list(divide("by_folder", sites=None, **common)) == ["f"]
    with pytest.raises(RecipeError, match="did you mean 'dirichlet'"):
        divide("dirichlett", sites=2, **common)
    with pytest.raises(RecipeError, match="needs the number of sites"):
        divide("iid", sites=None, **common)
    with pytest.raises(RecipeError, match="leave it out"):
        divide("by-folder", sites=3, **common)
    with pytest.raises(RecipeError, match="alpha"):
        divide("dirichlet", sites=3, alpha=0, **common)


def test_split_takes_a_fifth_of_each_source_rounded_up():
    # 647, 562 and 163 images: the paper's 276 test cases.
    sources = ["busi"] * 647 + ["busis"] * 562 + ["udiat"] * 163
    split = split_cases(sources, [str(i) for i in range(len(sources))])
    tests = [s for s, side in zip(sources, split, strict=True) if side == "test"]
    assert [tests.count(s) for s in ("busi", "busis", "udiat")] == [130, 113, 33]
    assert split == split_cases(sources, [str(i) for i in range(len(sources))])
    assert split != split_cases(sources, [str(i) for i in range(len(sources))], seed=1)


@given(st.lists(st.integers(0, 8), min_size=2, max_size=40), st.integers(0, 9))
def test_split_keeps_groups_whole_and_what_is_given(groups, seed):
    names = [str(group) for group in groups]
    split = split_cases(["s"] * len(names), names, seed=seed)
    assert all(len({s for s, g in zip(split, names, strict=True) if g == n}) == 1 for n in names)
    given_ = ["test", *[""] * (len(names) - 1)]
    assert split_cases(["s"] * len(names), names, given_, seed=seed)[0] == "test"


def test_split_share_must_be_a_share():
    with pytest.raises(RecipeError, match="between 0 and 1"):
        split_cases(["a"], ["a"], share=1.0)
