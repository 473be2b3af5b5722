"""Several annotators: who trains on whose masks, and what their consensus is."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from data_files import lesion, save
from feda3i.data.folder import folder, load_folder
from feda3i.errors import DataError
from feda3i.reading.consensus import consensus_of
from feda3i.reading.listing import list_cases
from feda3i.reading.options import Options
from feda3i.reading.usage import usage_of

SHIFTS = {"ann": 0, "bob": 3, "eve": -3}  # rows by which each one's masks are moved


@pytest.fixture
def clinic(tmp_path):
    """Return 12 patients with two eyes each, drawn by three people; eve has not drawn patient 1."""
    for number in range(24):
        image, mask = lesion(number, 32, 32, colour=False)
        name = f"R{number // 2:02d}{('OD', 'OS')[number % 2]}.png"
        save(tmp_path / "images" / name, image)
        for who, shift in SHIFTS.items():
            if (who, number // 2) != ("eve", 1):
                moved = np.roll(mask, shift, axis=0).astype(np.uint8) * 255
                save(tmp_path / "annotators" / who / name, moved)
        save(tmp_path / "annotators" / "cup" / name, np.zeros((32, 32), np.uint8))
    return tmp_path


def drawings(case):
    """Return what each of them has drawn of a case."""
    truth = lesion(2 * int(case[1:3]) + (case[3:5] == "OS"), 32, 32, colour=False)[1]
    return {who: np.roll(truth, by, axis=0) for who, by in SHIFTS.items()}


def is_agreed(case, mask):
    """Return whether a mask is what two of three have drawn; of patient 1 there are but two."""
    two = np.sum(list(drawings(case).values()), axis=0) >= 2
    return case.startswith("R01") or np.array_equal(mask, two)


def drawn_by(federation, site):
    """Return whose masks a site has."""
    own = zip(federation.site(site).ids, federation.site(site).masks, strict=True)
    return {w for c, mask in own for w, one in drawings(c).items() if np.array_equal(mask, one)}


def test_every_annotator_is_a_site_and_no_image_or_patient_is_at_two(clinic):
    federation = folder(clinic, annotators_of="[abe]*", cache=False)
    assert federation.names() == sorted(SHIFTS)
    assert {site: drawn_by(federation, site) for site in SHIFTS} == {w: {w} for w in SHIFTS}
    patients = [{i[:3] for i in federation.site(site).ids} for site in federation.names()]
    patients.append({i[:3] for i in federation.test.ids})
    assert sum(map(len, patients)) == len(set.union(*patients)) == 12
    assert "R01" not in patients[2]
    sizes = [len(federation.site(site)) for site in federation.names()]
    assert max(sizes) - min(sizes) <= 2
    known = [federation.test, replace(federation.train, masks=federation.clean_masks)]
    for cases in known:  # the consensus is what a run is tested against, and `clean` trains on
        assert all(map(is_agreed, cases.ids, cases.masks))


@pytest.mark.parametrize(
    ("options", "people"),
    [
        ({"annotators": "random"}, set(SHIFTS)),
        ({"annotators": "majority"}, set()),
        ({"annotators": "staple"}, set()),
        ({"annotators": "random", "consensus_share": 1.0}, set()),
        ({"annotators": "random", "consensus_share": 0.5}, {"bob"}),
    ],
)
def test_simulated_sites_have_masks_of_one_drawn_annotator_or_the_consensus(
    clinic, options, people
):
    pytest.importorskip("SimpleITK")
    how = {"annotators_of": "[abe]*", "sites": 3, "partition": "iid", "cache": False}
    federation = folder(clinic, **how, **options)
    assert len(federation.train) + len(federation.test) == 24
    found = set.union(*(drawn_by(federation, site) for site in federation.names()))
    assert people <= found
    assert people or "bob" not in found
    assert federation.train.digest() == folder(clinic, **how, **options).train.digest()
    if not people and options["annotators"] != "staple":
        assert all(map(is_agreed, federation.train.ids, federation.train.masks))


def test_masks_beside_the_annotators_are_the_reference_and_not_trained_on(clinic):
    for file in (clinic / "images").iterdir():
        save(clinic / "masks" / file.name, np.full((32, 32), 255, np.uint8))
    for how in ("each", "majority"):
        options = {"annotators": how, "sites": None if how == "each" else 3}
        federation = folder(clinic, annotators_of="[abe]*", cache=False, **options)
        assert federation.test.masks.all()
        assert not federation.train.masks.all(axis=(1, 2)).any()
    assert load_folder(clinic, annotators_of="[abe]*", cache=False).masks.all()


def test_every_file_is_accounted_for_and_a_pattern_must_fit(clinic):
    listing, problems = list_cases(clinic, Options(annotators_of="[abe]*"))
    assert usage_of(listing.fates) == {
        "annotators/ann": {"masks": 24},
        "annotators/bob": {"masks": 24},
        "annotators/cup": {"left aside": 24},
        "annotators/eve": {"masks": 22},
        "images": {"images": 24},
    }
    assert {p.level for p in problems} == {"note"}
    with pytest.raises(DataError, match="has ann, bob, cup, eve"):
        list_cases(clinic, Options(annotators_of="dan"))


@given(st.lists(arrays(np.uint8, (9, 9), elements=st.integers(0, 1)), min_size=1, max_size=5))
def test_the_majority_is_between_intersection_and_union_whatever_the_order(masks):
    found = consensus_of(masks, "majority")
    assert (np.minimum.reduce(masks) <= found).all()
    assert (found <= np.maximum.reduce(masks)).all()
    np.testing.assert_array_equal(found, consensus_of(masks[::-1], "majority"))
    if len(masks) % 2:
        np.testing.assert_array_equal(found, np.sum(masks, axis=0) > len(masks) / 2)


def square(start, stop, value=1):
    mask = np.zeros((40, 40), np.uint8)
    mask[start:stop, start:stop] = value
    return mask


@pytest.mark.parametrize("how", ["majority", "staple"])
def test_known_consensus(how):
    pytest.importorskip("SimpleITK")
    for masks in ([square(10, 20)] * 3, [square(0, 0)] * 3, [square(10, 20, 2)] * 3):
        np.testing.assert_array_equal(consensus_of(masks, how), masks[0])
    masks = [*[square(10, 20)] * 3, square(5, 30)]
    np.testing.assert_array_equal(consensus_of(masks, how), masks[0])
    middle = consensus_of([square(10, 30), square(14, 26)], "majority")
    np.testing.assert_array_equal(middle[20], square(12, 28)[20])
