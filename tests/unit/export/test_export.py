"""Exports give the masks that ``feda3i predict`` gives, at any size, with a card beside them."""

import json
import re
import zipfile

import cv2
import numpy as np
import pytest
import torch

from feda3i.contract import Subject, tiny_federation
from feda3i.core.normalise import Normalise
from feda3i.engine.run import run
from feda3i.errors import RunError
from feda3i.export import exporters
from feda3i.export.arithmetic import as_seen, line_of
from feda3i.export.graph import MaskGraph, graph_of
from small_predictors import predictor_of


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    recipe = Subject("fedavg", {}).recipe(rounds=3, validation={"share": 0.25})
    path = tmp_path_factory.mktemp("runs") / "run"
    run(recipe, path, federation=tiny_federation())
    return path


@pytest.mark.parametrize("aspect", ["squeeze", "pad"])
@pytest.mark.parametrize("shape", [(32, 32), (64, 64), (47, 91), (130, 33), (333, 200)])
def test_the_graph_is_predict_at_every_size(aspect, shape):
    predictor = predictor_of(classes=2, channels=3, aspect=aspect)
    image = next(iter(exporters.samples(shape, 3)))[: shape[0], : shape[1]]
    expected = predictor.picture(image)
    with torch.inference_mode():
        found = MaskGraph(predictor)(torch.from_numpy(image).permute(2, 0, 1)).numpy()
    assert set(np.unique(expected)) >= {0, 1}
    assert (found != expected).mean() < 1e-4


def test_small_images_are_enlarged_alike():
    """OpenCV enlarges bytes with weights of eleven bits: single pixels may differ."""
    predictor = predictor_of()
    image = next(iter(exporters.samples((21, 17), 1)))
    with torch.inference_mode():
        found = MaskGraph(predictor)(torch.from_numpy(image).permute(2, 0, 1)).numpy()
    assert (found != predictor.picture(image)).mean() < 0.02


def test_the_graph_takes_volumes():
    predictor = predictor_of((12, 16, 16))
    image = next(iter(exporters.samples((20, 30, 16), 1)))
    with torch.inference_mode():
        found = MaskGraph(predictor)(torch.from_numpy(image).permute(3, 0, 1, 2)).numpy()
    assert (found != predictor.picture(image)).mean() < 1e-3


@pytest.mark.parametrize(
    "rule",
    [
        Normalise("zscore"),
        Normalise("zscore", "nonzero"),
        Normalise("percentiles"),
        Normalise("percentiles", "nonzero"),
        Normalise("window", by=(-50.0, 120.0)),
        Normalise("constant", by=(40.0, 30.0)),
    ],
    ids=lambda rule: f"{rule.name}-{rule.over}",
)
def test_the_graph_normalises_alike(rule):
    draw = np.random.default_rng(0)
    image = (60 * draw.standard_normal((9, 11, 2))).astype(np.float32)
    image[:3] = 0
    for given in (image, np.zeros((4, 4, 1), np.float32)):
        values = torch.from_numpy(given).permute(2, 0, 1)
        found = as_seen(values, line_of(values, rule)).permute(1, 2, 0)
        np.testing.assert_allclose(found.numpy(), rule(given), rtol=1e-5, atol=1e-3)


def test_what_cannot_be_exported_says_so():
    resampled = {"patches": True, "spacing": (1.0, 1.0)}
    for form, word in (({"aspect": "crop"}, "central square"), (resampled, "data.spacing")):
        with pytest.raises(RunError, match=word):
            graph_of(predictor_of(**form))


def test_a_file_that_answers_otherwise_is_refused():
    predictor = predictor_of()
    with pytest.raises(RunError, match="other masks than feda3i predict"):
        exporters.check_alike(lambda image: np.ones(image.shape[1:], np.uint8), predictor, "onnx")


def test_torchscript_and_card_from_the_command_line(feda3i, finished, tmp_path):
    out = tmp_path / "away"
    code, said, err = feda3i(
        "export", str(finished), "--to", "torchscript", "--out", str(out), "--best"
    )
    assert code == 0, err
    assert "pixels differ" in said
    image = tiny_federation().test.images[0]
    mask = torch.jit.load(str(out / "model.ts"))(torch.from_numpy(image).permute(2, 0, 1)).numpy()
    from feda3i.engine.model_file import open_predictor

    np.testing.assert_array_equal(mask, open_predictor(finished, best=True).picture(image))
    with zipfile.ZipFile(out / "model.ts") as archive:
        kept = {name: archive.read(name) for name in archive.namelist()}
    assert len(kept) > 10
    for name, content in kept.items():  # of no folder of this computer
        assert not re.search(rb"/[\w./-]*\.py\b", content), name
    card = (out / "README.md").read_text()
    head = dict(line.split(": ", 1) for line in card.split("---")[1].strip().splitlines())
    assert json.loads(head["pipeline_tag"]) == "image-segmentation"
    assert json.loads(head["model-index"])[0]["results"][0]["metrics"][0]["type"] == "dice"
    manifest = json.loads((finished / "manifest.json").read_text())
    assert manifest["data"]["sha256"][:32] in card
    for word in ("## Intended use", "## Limits", "| site-1 | 3 |", "the best on the validation"):
        assert word in card
    code, _, err = feda3i("export", str(finished), "--to", "torchscript", "--out", str(out))
    assert code == 1
    assert "already there" in err
    assert not list(tmp_path.glob(".away*"))


@pytest.mark.slow
def test_onnx_and_torch_export_answer_alike(feda3i, finished, tmp_path):
    pytest.importorskip("onnxruntime")
    for kind in ("onnx", "torch-export"):
        code, said, err = feda3i("export", str(finished), "--to", kind, "--out", tmp_path / kind)
        assert code == 0, err
        assert "0 of" in said


@pytest.mark.slow
def test_monai_runs_the_bundle(feda3i, finished, tmp_path):
    bundles = pytest.importorskip("monai.bundle")
    out, images = tmp_path / "bundle", tmp_path / "images"
    code, _, err = feda3i("export", str(finished), "--to", "monai-bundle", "--out", str(out))
    assert code == 0, err
    images.mkdir()
    for number, image in enumerate(exporters.samples((40, 32), 1)):
        cv2.imwrite(str(images / f"{number}.png"), image)
    configs = out / "configs"
    bundles.run(
        config_file=str(configs / "inference.json"),
        meta_file=str(configs / "metadata.json"),
        bundle_root=str(out),
        dataset_dir=str(images),
        output_dir=str(tmp_path / "masks"),
    )
    code, _, err = feda3i("predict", str(finished), str(images), "--out", str(tmp_path / "ours"))
    assert code == 0, err
    for number in range(3):
        theirs = cv2.imread(str(tmp_path / "masks" / f"{number}_mask.png"), cv2.IMREAD_UNCHANGED)
        ours = cv2.imread(str(tmp_path / "ours" / f"{number}.png"), cv2.IMREAD_UNCHANGED)
        np.testing.assert_array_equal(theirs > 0, ours > 0)
