import numpy as np
import pytest

from data_files import lesion, plain_tree, save, save_pair
from feda3i.data.check_report import report_text, summary_text
from feda3i.data.checkup import check_data


def found(report, level=None):
    return {(p.kind, p.name) for p in report.problems if level in (None, p.level)}


@pytest.fixture
def clinic(tmp_path):
    """Return a folder with train and test that is fine."""
    plain_tree(tmp_path / "Dr Huber" / "train", 5)
    plain_tree(tmp_path / "Dr Huber" / "test", 3, first=50)
    return tmp_path / "Dr Huber"


def test_a_good_folder_is_fit(clinic, feda3i):
    report = check_data(clinic)
    assert not report.problems
    shares = [lesion(seed)[1].mean() for seed in (*range(5), 50, 51, 52)]
    text = summary_text(report)
    for line in (
        "fit for training   yes",
        "cases              5 train, 3 test (as the folder says)",
        "images             3 channel(s); 8 of 40x48",
        "mask values        0, 1 for 1 class(es)",
        f"foreground         median {np.median(shares):.1%}, from {min(shares):.1%}",
    ):
        assert line in text
    code, out, _ = feda3i("check", clinic)
    assert (code, text in out, "names" in out) == (0, True, False)


def test_every_defect_is_found(clinic):
    images, masks = clinic / "train" / "images", clinic / "train" / "masks"
    save(images / "lonely.png", lesion(9)[0])
    save_pair(clinic / "train", "other size", 10, height=50)
    drawn = {"empty": [0], "full": [255], "labels": range(4)}
    for number, (name, values) in enumerate(drawn.items()):
        save(images / f"{name}.png", lesion(11 + number)[0])
        save(masks / f"{name}.png", np.resize(np.uint8(values), (40, 48)))
    save_pair(clinic / "train", "cut", 14)
    (images / "cut.png").write_bytes((images / "cut.png").read_bytes()[:500])
    report = check_data(clinic)
    assert not report.is_fit
    assert found(report, "error") == {
        ("mask missing", "train/images/lonely.png"),
        ("sizes differ between cases", "train/other size"),
        ("mask values", "train/labels"),
        ("corrupt picture", "train/cut"),
    }
    assert found(report, "note") == {("empty mask", "train/empty"), ("full mask", "train/full")}
    assert "lonely" in report_text(report)
    sized = check_data(clinic, size=32)
    assert ("sizes differ between cases", "train/other size") not in found(sized)


def test_the_same_image_twice_is_told_and_worse_across_the_split(clinic):
    save_pair(clinic / "train", "copy", 2)
    save_pair(clinic / "test", "leak", 3)
    report = check_data(clinic)
    assert report.is_fit
    assert found(report) == {
        ("same image", "train/case2"),
        ("same image across train and test", "train/case3"),
    }
    assert "2 pairs, 1 of them across train and test, which flatters" in summary_text(report)


def test_the_mailed_summary_holds_no_names(clinic, tmp_path, feda3i):
    save(clinic / "train" / "images" / "Anna Huber 1961.png", lesion(9)[0])
    mail, problems = tmp_path / "mail" / "summary.txt", tmp_path / "all.csv"
    code, out, _ = feda3i("check", clinic, "--mail", mail, "--problems", problems)
    assert code == 1
    mailed = mail.read_text("utf-8")
    assert "fit for training   NO" in mailed
    for name in ("Huber", "Anna", "case0", "train/", str(tmp_path)):
        assert name not in mailed
    assert "Anna Huber 1961" in problems.read_text("utf-8")
    assert "mask missing" in out


def test_nothing_to_learn_and_nothing_to_test(tmp_path):
    save(tmp_path / "train" / "images" / "c.png", lesion(1)[0])
    save(tmp_path / "train" / "masks" / "c.png", np.zeros((40, 48), np.uint8))
    report = check_data(tmp_path)
    assert ("all masks empty or full", ".") in found(report, "error")
    assert ("no test cases", ".") in found(report, "note")
