import json

import numpy as np
import pytest
import typer
from PIL import Image

from data_files import lesion, plain_tree, save, save_pair
from feda3i.commands.check import check
from feda3i.data.check_report import report_text, summarise_checkup, summary_text
from feda3i.data.checkup import check_data
from feda3i.data.duplicates import find_duplicates, fingerprint
from feda3i.data.round_cost import Estimate, estimate
from feda3i.models.unet import UNet


def found(report, level=None):
    return {(p.kind, p.name) for p in report.problems if level in (None, p.level)}


@pytest.fixture
def clinic(tmp_path):
    """Return a folder with train and test that is fine."""
    plain_tree(tmp_path / "Dr Huber" / "train", 5)
    plain_tree(tmp_path / "Dr Huber" / "test", 3, first=50)
    return tmp_path / "Dr Huber"


def test_a_good_folder_is_fit(clinic):
    report = check_data(clinic, measure=False)
    assert report.is_fit
    assert not report.problems
    summary = summarise_checkup(report)
    assert summary["cases"] == {"train": 5, "test": 3}
    assert summary["sizes"] == {"40x48": 8}
    assert summary["mask_values"] == "0, 255"
    shares = [lesion(seed)[1].mean() for seed in (*range(5), 50, 51, 52)]
    assert summary["foreground_share"]["median"] == pytest.approx(np.median(shares), abs=1e-4)
    assert "yes" in summary_text(summary)


def test_every_defect_is_found(clinic):
    images, masks = clinic / "train" / "images", clinic / "train" / "masks"
    save(images / "lonely.png", lesion(9)[0])
    save_pair(clinic / "train", "other size", 10, height=50)
    save_pair(clinic / "train", "empty", 11)
    save(masks / "empty.png", np.zeros((40, 48), np.uint8))
    save_pair(clinic / "train", "full", 12)
    save(masks / "full.png", np.full((40, 48), 255, np.uint8))
    save_pair(clinic / "train", "labels", 13)
    save(masks / "labels.png", (np.arange(48) % 4 * np.ones((40, 1))).astype(np.uint8))
    save_pair(clinic / "train", "cut", 14)
    (images / "cut.png").write_bytes((images / "cut.png").read_bytes()[:500])
    report = check_data(clinic, measure=False)
    assert not report.is_fit
    assert found(report, "error") == {
        ("mask missing", "train/images/lonely.png"),
        ("sizes differ between cases", "train/other size"),
        ("mask values", "train/labels"),
        ("corrupt picture", "train/cut"),
    }
    assert found(report, "note") == {("empty mask", "train/empty"), ("full mask", "train/full")}
    assert "lonely" in report_text(report)
    sized = check_data(clinic, size=32, measure=False)
    assert ("sizes differ between cases", "train/other size") not in found(sized)


def test_near_duplicates_within_and_across_the_split(clinic):
    image, mask = lesion(2)
    brighter = np.clip(image.astype(int) + 25, 0, 255).astype(np.uint8)
    save(clinic / "train" / "images" / "copy.png", brighter)
    save(clinic / "train" / "masks" / "copy.png", mask)
    save(clinic / "test" / "images" / "leak.jpg", lesion(3)[0], quality=60)
    save(clinic / "test" / "masks" / "leak.png", lesion(3)[1])
    report = check_data(clinic, measure=False)
    assert report.is_fit
    pairs = {frozenset((report.cases[i].name, report.cases[j].name)) for i, j in report.duplicates}
    assert pairs == {
        frozenset(("train/case2", "train/copy")),
        frozenset(("train/case3", "test/leak")),
    }
    assert {kind for kind, _ in found(report)} == {
        "near-duplicates",
        "near-duplicates across train and test",
    }
    assert summarise_checkup(report)["near_duplicates"] == {"pairs": 2, "across_train_and_test": 1}


def test_duplicates_survive_small_changes_and_strangers_do_not_match():
    rng = np.random.default_rng(0)
    prints, expected = [], set()
    for seed in range(40):
        image, _ = lesion(seed, 96, 96)
        prints.append(fingerprint(image))
        if seed % 4 == 0:
            small = np.asarray(Image.fromarray(image).resize((60, 60)).resize((96, 96)))
            noisy = np.clip(small * 0.9 + rng.normal(0, 4, small.shape), 0, 255).astype(np.uint8)
            expected.add((len(prints) - 1, len(prints)))
            prints.append(fingerprint(noisy))
    assert set(find_duplicates(prints)) == expected
    assert find_duplicates([]) == []


def test_constant_images_are_no_trouble():
    flat = [fingerprint(np.full((20, 20, 3), v, np.uint8)) for v in (0, 90)]
    assert find_duplicates(flat) == []


def test_the_mailed_summary_holds_no_names(clinic, tmp_path, capsys):
    save(clinic / "train" / "images" / "Anna Huber 1961.png", lesion(9)[0])
    with pytest.raises(typer.Exit) as caught:
        check(
            [clinic],
            mail=tmp_path / "mail" / "summary",
            problems=tmp_path / "all.csv",
            measure=False,
        )
    assert caught.value.exit_code == 1
    mailed = (tmp_path / "mail" / "summary.txt").read_text("utf-8")
    mailed += (tmp_path / "mail" / "summary.json").read_text("utf-8")
    for name in ("Huber", "Anna", "case0", "train/", str(tmp_path)):
        assert name not in mailed
    assert (
        json.loads((tmp_path / "mail" / "summary.json").read_text("utf-8"))["fit_for_training"]
        is False
    )
    assert "Anna Huber 1961" in (tmp_path / "all.csv").read_text("utf-8")
    assert "mask missing" in capsys.readouterr().out


def test_a_fit_folder_ends_without_complaint(clinic, capsys):
    check([clinic], measure=False)
    out = capsys.readouterr().out
    assert "fit for training   yes" in out
    assert "names" not in out


def test_nothing_to_learn_and_nothing_to_test(tmp_path):
    for number in range(3):
        save_pair(tmp_path / "train", f"c{number}", number)
        save(tmp_path / "train" / "masks" / f"c{number}.png", np.zeros((40, 48), np.uint8))
    report = check_data(tmp_path, measure=False)
    assert ("all masks empty or full", ".") in found(report, "error")
    assert ("no test cases", ".") in found(report, "note")


def test_cost_of_a_round():
    cost = Estimate(images_per_second=10, megabytes=1, epochs=5)
    assert cost.minutes(120) == pytest.approx(1.0)
    measured = estimate((32, 32), 1, 1, width=4)
    net = UNet(channels=1, classes=1, width=4)
    size = sum(t.numel() * t.element_size() for t in net.state_dict().values())
    assert measured.megabytes == pytest.approx(2 * size / 1e6)
    assert measured.images_per_second > 0


def test_the_estimate_is_part_of_the_report(clinic):
    report = check_data(clinic, size=32, width=4)
    assert "one round" in report_text(report)
    assert summarise_checkup(report)["cost_per_round"]["epochs"] == 5
