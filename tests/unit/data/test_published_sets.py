"""What the publishers send is read as it is, once unpacked; what is missing is named."""

import pytest

from data_files import breast_tree, isic_tree
from feda3i.data import breast, isic2017
from feda3i.data.sets import REGISTRY
from feda3i.errors import DataError

SETS = {
    "isic2017": (isic_tree, isic2017, {"training": 3, "validation": 0, "test": 2}),
    "breast": (breast_tree, breast, {"busi": 10, "busis": 5, "udiat": 5}),
}


@pytest.fixture(params=SETS)
def published(request, tmp_path, monkeypatch):
    """Return a small set as it is unpacked, and its options; ``EXPECTED`` counts are small, too."""
    write, module, counts = SETS[request.param]
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
