"""Who gets which cases; sets of publishers are read as they are, once unpacked."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from data_files import breast_tree, isic_tree
from feda3i.data import breast, isic2017
from feda3i.data.partition import divide, site_names, split_cases
from feda3i.data.sets import REGISTRY
from feda3i.errors import DataError, RecipeError

SETS = ("busi", "busis", "udiat")
sizes = st.tuples(st.integers(1, 60), st.integers(1, 60)).filter(lambda t: t[0] >= t[1])


def deal(name, n, sites, seed=0, **options):
    draw, of = np.random.default_rng(seed), options.pop("sources", ["a"] * n)
    return divide(name, sources=of, folders=of, sites=sites, rng=draw, **options)


def covers(parts, n):
    return np.array_equal(np.sort(np.concatenate(list(parts.values()))), np.arange(n))


@given(sizes, st.floats(0.05, 50), st.integers(0, 99))
def test_every_case_is_dealt_once_and_no_site_is_empty(size, alpha, seed):
    n, sites = size
    for name in ("iid", "dirichlet", "published"):
        parts = deal(name, n, sites, seed, alpha=alpha)
        counts = [len(part) for part in parts.values()]
        assert list(parts) == site_names(sites) == sorted(parts)
        assert covers(parts, n)
        assert min(counts) >= 1
        assert name == "dirichlet" or max(counts) - min(counts) <= 1


def test_small_alpha_is_less_equal():
    def spread(alpha):
        parts = [deal("dirichlet", 400, 20, seed, alpha=alpha).values() for seed in range(10)]
        return np.mean([np.std([len(part) for part in own]) for own in parts])

    assert spread(0.1) > 1.5 * spread(1.0) > 3 * spread(100.0)


@given(st.lists(st.sampled_from("abc"), min_size=3, max_size=60), st.data())
def test_by_source_keeps_sources_apart_and_in_proportion(sources, data):
    kinds = len(set(sources))
    sites = data.draw(st.integers(kinds, len(sources)))
    parts = deal("by-source", len(sources), sites, sources=sources)
    assert covers(parts, len(sources))
    assert all(len({sources[i] for i in part}) == 1 for part in parts.values())
    for kind in set(sources):
        ideal = sites * sources.count(kind) / len(sources)
        given_ = sum(sources[part[0]] == kind for part in parts.values())
        assert given_ >= 1
        # Sources too small for their share push others by at most the number of sources.
        assert abs(given_ - ideal) < kinds


def test_paper_sizes_and_seeds():
    sources = ["busi"] * 517 + ["busis"] * 449 + ["udiat"] * 130
    breast = deal("by-source", len(sources), 50, sources=sources)
    assert [sum(sources[p[0]] == s for p in breast.values()) for s in SETS] == [24, 20, 6]
    one, same, other = (deal("iid", 50, 5, seed)["site-01"].tolist() for seed in (1, 1, 2))
    assert one == same != other


@pytest.mark.parametrize(
    ("name", "sources", "sites", "message"),
    [
        ("iid", "aaa", 4, "4 sites need"),
        ("dirichlet", "aaa", 4, "4 sites need"),
        ("by-source", "abb", 4, "4 sites need"),
        ("by-source", "abc", 2, "one site per source"),
        ("by-folder", ["x", ""], None, "one folder per site"),
        ("by-folder", "aaa", 3, "leave it out"),
        ("iid", "aaa", None, "needs the number of sites"),
        ("dirichlett", "aaa", 2, "did you mean 'dirichlet'"),
    ],
)
def test_what_cannot_be_divided_is_told(name, sources, sites, message):
    with pytest.raises((DataError, RecipeError), match=message):
        deal(name, len(sources), sites, sources=list(sources))


def test_split_takes_a_fifth_of_each_source_rounded_up():
    # 647, 562 and 163 images: the paper's 276 test cases.
    sources = ["busi"] * 647 + ["busis"] * 562 + ["udiat"] * 163
    split = split_cases(sources, [str(i) for i in range(len(sources))])
    tests = [s for s, side in zip(sources, split, strict=True) if side == "test"]
    assert [tests.count(s) for s in SETS] == [130, 113, 33]


@given(st.lists(st.integers(0, 8), min_size=2, max_size=40))
def test_split_keeps_groups_whole_and_what_is_given(groups):
    names = [str(group) for group in groups]
    split = split_cases(["s"] * len(names), names)
    assert all(len({s for s, g in zip(split, names, strict=True) if g == n}) == 1 for n in names)
    given_ = ["test", *[""] * (len(names) - 1)]
    assert split_cases(["s"] * len(names), names, given_)[0] == "test"


# -- what the publishers send ---------------------------------------------------------------------


PUBLISHED = {
    "isic2017": (isic_tree, isic2017, {"training": 3, "validation": 0, "test": 2}),
    "breast": (breast_tree, breast, {"busi": 10, "busis": 5, "udiat": 5}),
}


@pytest.fixture(params=PUBLISHED)
def published(request, tmp_path, monkeypatch):
    """Return a small set as it is unpacked, and its options; ``EXPECTED`` counts are small, too."""
    write, module, counts = PUBLISHED[request.param]
    monkeypatch.setattr(module, "EXPECTED", counts)
    options = {"path": write(tmp_path / "in"), "size": 32, "sites": 3, "cache": False}
    return REGISTRY.get(request.param).of(options), request.param


def test_a_published_set_is_read_as_it_is_unpacked(published):
    data, name = published
    made = data.federation()
    if name == "isic2017":
        ids = [tuple(f"isic2017_ISIC_{n:07d}" for n in part) for part in (range(3), (100, 101))]
        assert [made.train.ids, made.test.ids] == ids
        assert list(data.plan().listing.fates.values()).count("left aside") == 5  # superpixels
        return
    assert made.names() == ["busi", "busis", "udiat"]
    assert all(set(made.site(source).sources) == {source} for source in made.names())
    assert [made.test.sources.count(source) for source in made.names()] == [2, 1, 1]
    both = (made.train, made.test)
    cases = {i: mask for one in both for i, mask in zip(one.ids, one.masks, strict=True)}
    assert cases["busi_benign_1"][:4, :2].all()  # its second mask
    assert len(cases) == 20  # without BUSI's two images of no lesion


def test_an_incomplete_set_says_what_to_do(published, tmp_path):
    data, name = published
    for file in (tmp_path / "in").rglob("ISIC_0000101*" if name == "isic2017" else "000005.png"):
        file.unlink()
    with pytest.raises(DataError, match=r"set incomplete.*(?s:.*)(found 4.*unpack|found 1.*unzip)"):
        data.federation()
