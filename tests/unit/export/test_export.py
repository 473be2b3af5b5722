"""Exports give the masks that ``feda3i predict`` gives, at any size, with a card beside them."""

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from dataclasses import replace

import cv2
import numpy as np
import pytest
import tomli_w
import torch

from fake_runs import change_manifest
from feda3i.commands.predict import predict_volume
from feda3i.core.normalise import Normalise
from feda3i.engine.results import load_run
from feda3i.engine.run import run
from feda3i.errors import RunError
from feda3i.export import bundle, onnx_file
from feda3i.export.arithmetic import as_seen, line_of
from feda3i.export.bundle import write_export
from feda3i.export.card import model_card
from feda3i.export.graph import graph_of
from feda3i.files import write_png
from feda3i.testing import Subject, tiny_federation
from small_predictors import predictor_of

PLANE, VOLUME = (16, 20), (8, 12, 8)
ZSCORE = Normalise("zscore")
PATCHES = {"classes": 2, "patches": True}


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    recipe = Subject("fedavg", {}).recipe(rounds=3, validation={"share": 0.25})
    path = tmp_path_factory.mktemp("runs") / "run"
    run(recipe, path, federation=tiny_federation())
    return path


def image_of(shape, channels=1, dtype=np.uint8):
    (image,) = onnx_file.samples(shape, channels, [(1.0, 1.0)])
    return image.astype(dtype)


def answer(graph, image):
    with torch.inference_mode():
        return graph(torch.from_numpy(np.moveaxis(image, -1, 0))).numpy()


def volumes(**form):
    return predictor_of(**{**VOLUMES, "normalise": ZSCORE, **form})


def exported(feda3i, run, out, *options):
    code, said, err = feda3i("export", run, "--out", out, *options)
    assert code == 0, err
    return said


def run_card(text, names):
    """Run the lines of Python in a card."""
    exec(re.search(r"```python\n(.*?)```", text, re.DOTALL)[1], names)
    return names


WINDOWS = {"shape": PLANE, "channels": 3, **PATCHES}
VOLUMES = {**PATCHES, "shape": VOLUME, "keeps_values": True, "volumes": "whole"}
SQUEEZED = {"shape": PLANE, "patches": True, "size": 40, "normalise": ZSCORE}
SIZES = ((16, 20), (5, 7), (2, 61), (40, 9), (33, 52))
DEPTHS = ((8, 12, 8), (3, 5, 4), (21, 6, 9), (15, 25, 13))
FORMS = {
    "squeezed": ({"classes": 2, "channels": 3}, ((32, 32), (47, 91), (130, 33), (333, 200)), 1e-4),
    "enlarged": ({}, ((21, 17),), 0.02),  # OpenCV enlarges bytes with weights of eleven bits
    "volume": ({"shape": (12, 16, 16)}, ((20, 30, 16),), 1e-3),
    "squeezed windows": (SQUEEZED, ((61, 90),), 1e-3),
    **{f"windows {part}": ({**WINDOWS, "overlap": part}, SIZES, 0) for part in (0.0, 0.3, 0.75)},
    "zscore": ({**VOLUMES, "normalise": ZSCORE}, DEPTHS, 0),
    "percentiles": ({**VOLUMES, "normalise": Normalise("percentiles", "nonzero")}, DEPTHS, 0),
    "window": ({**VOLUMES, "normalise": Normalise("window", by=(20.0, 200.0))}, DEPTHS, 0),
}


@pytest.mark.parametrize("kind", FORMS)
def test_the_graph_is_predict_at_every_size(kind):
    form, shapes, most = FORMS[kind]
    predictor = predictor_of(**form)
    graph = graph_of(predictor)
    for shape in shapes:
        image = image_of(shape, predictor.format.channels)
        if "normalise" in form:
            image = 7 * image.astype(np.float32) - 300
            image[0, :3] = 0
        expected = predictor.picture(image)
        assert (answer(graph, image) != expected).mean() <= most
    assert len(np.unique(expected)) > 1


RULES = [
    *(Normalise(name, over) for name in ("zscore", "percentiles") for over in ("all", "nonzero")),
    Normalise("window", by=(-50.0, 120.0)),
    Normalise("constant", by=(40.0, 30.0)),
]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: f"{rule.name}-{rule.over}")
def test_the_graph_normalises_alike(rule):
    draw = np.random.default_rng(0)
    image = (60 * draw.standard_normal((9, 11, 2))).astype(np.float32)
    image[:3] = 0
    for given in (image, np.zeros((4, 4, 1), np.float32)):
        values = torch.from_numpy(given).permute(2, 0, 1)
        found = as_seen(values, line_of(values, rule)).permute(1, 2, 0)
        np.testing.assert_allclose(found.numpy(), rule(given), rtol=1e-5, atol=1e-3)


def test_a_card_tells_the_size_only_where_cases_are_resized(finished):
    loaded = load_run(finished)
    for size, told in (({}, False), ({"size": 48}, True)):
        data = type(loaded.recipe.data).model_validate({"name": "folder", **size})
        one = replace(loaded, recipe=loaded.recipe.model_copy(update={"data": data}))
        assert ("finer detail is lost" in model_card(one, "onnx", predictor_of().format)) == told


def test_what_cannot_be_exported_says_so():
    with pytest.raises(RunError, match=r"data\.spacing"):
        graph_of(predictor_of(patches=True, spacing=(1.0, 1.0)))
    pytest.importorskip("monai")
    for form, word in (({"volumes": None}, "from files"), ({"normalise": Normalise()}, "bytes")):
        with pytest.raises(RunError, match=word):
            bundle.check_bundle(volumes(keeps_values=False, **form).format)


def test_windows_blended_otherwise_are_refused():
    """The check of an export would not keep a file with a wrong weight."""
    predictor = volumes()
    graph = graph_of(predictor)
    graph.weight.fill_(1.0)
    with pytest.raises(RunError, match="other masks than feda3i predict"):
        onnx_file.check_masks(lambda image: answer(graph, np.moveaxis(image, 0, -1)), predictor)


@pytest.mark.parametrize("shape", [VOLUME, pytest.param(PLANE, marks=pytest.mark.slow)])
def test_onnx_holds_the_loop(tmp_path, shape):
    pytest.importorskip("onnxruntime")
    predictor = predictor_of(shape, normalise=ZSCORE, **PATCHES)
    path = tmp_path / "model.onnx"
    ask = onnx_file.write_onnx(graph_of(predictor), path)
    assert onnx_file.check_masks(ask, predictor)[0] == 0
    assert not re.search(rb"/[\w./-]*\.py\b", path.read_bytes())  # of no folder of this computer


def test_onnx_and_card_from_the_command_line(feda3i, finished, tmp_path, monkeypatch):
    pytest.importorskip("onnxruntime")
    out, to = tmp_path / "away", ("--to", "onnx")
    assert "0 of" in exported(feda3i, finished, out, *to, "--best")
    card = (out / "README.md").read_text("utf-8")
    image = tiny_federation().test.images[0]
    cv2.imwrite(str(out / "image.png"), image[..., ::-1])
    monkeypatch.chdir(out)
    found = run_card(card, {})
    expected = load_run(finished).predictor(best=True).picture(image)
    np.testing.assert_array_equal(found["mask"], expected)
    head = dict(line.split(": ", 1) for line in card.split("---")[1].strip().splitlines())
    assert head["pipeline_tag"] == "image-segmentation"
    assert json.loads(head["model-index"])[0]["results"][0]["metrics"][0]["type"] == "dice"
    manifest = json.loads((finished / "manifest.json").read_text("utf-8"))
    assert manifest["data"]["sha256"][:32] in card
    for word in ("## Intended use", "## Limits", "| site-1 | 3 |", "the best on the validation"):
        assert word in card
    code, _, err = feda3i("export", finished, *to, "--out", out)
    assert code == 1
    assert "already there" in err
    assert not list(tmp_path.glob(".away*"))


CODE = "__import__('os').system('touch {}')"


@pytest.mark.parametrize("sign", ["$", " $", "@", "%"])
@pytest.mark.parametrize("place", ["classes", "sites", "notes", "title"])
def test_names_that_monai_would_evaluate_are_refused(feda3i, finished, tmp_path, sign, place):
    path, ran, out = tmp_path / "received", tmp_path / "ran", tmp_path / "out"
    text = sign + CODE.format(ran)
    shutil.copytree(finished, path)
    if place == "title":
        values = tomllib.loads((path / "recipe.toml").read_text("utf-8"))
        (path / "recipe.toml").write_text(tomli_w.dumps({**values, "title": text}))
    else:
        odd = {"classes": [text], "sites": {text: 3}, "notes": {"licence": text}}
        change_manifest(path, data=load_run(path).manifest["data"] | {place: odd[place]})
    code, _, err = feda3i("export", path, "--to", "monai-bundle", "--out", out)
    assert code in (1, 2)
    assert "$, @ or %" in err or "recipe.toml" in err
    assert not out.exists()
    assert not ran.exists()


def test_monai_reads_names_as_text(tmp_path):
    """Signs within a name are no code: what MONAI makes of the files is what they say."""
    parser = pytest.importorskip("monai.bundle").ConfigParser
    name = "a $" + CODE.format(tmp_path / "ran") + " @run %metadata.json"
    bundle.write_configs(tmp_path, predictor_of().format, name, [name, "x"])
    for file in ("inference", "metadata"):
        read = parser()
        read.read_config(str(tmp_path / f"{file}.json"))
        read.parse()
    found = read.get_parsed_content("network_data_format#outputs#pred#channel_def")
    assert list(found.values()) == ["background", name, "x"]
    assert read.get_parsed_content("name") == name
    assert not (tmp_path / "ran").exists()


@pytest.mark.slow
def test_monai_runs_the_bundle(feda3i, finished, tmp_path):
    out, images = tmp_path / "bundle", tmp_path / "images"
    exported(feda3i, finished, out, "--to", "monai-bundle")
    for number, image in enumerate(onnx_file.samples((40, 32), 1)):
        write_png(images / f"{number}.png", image[..., 0])
    run_bundle(out, images, tmp_path / "masks")
    code, _, err = feda3i("predict", finished, images, "--out", tmp_path / "ours")
    assert code == 0, err
    for number in range(3):
        names = f"masks/{number}_mask.png", f"ours/{number}.png"
        theirs, ours = (cv2.imread(str(tmp_path / name), cv2.IMREAD_UNCHANGED) for name in names)
        np.testing.assert_array_equal(theirs > 0, ours > 0)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["whole", "slices"])
def test_monai_and_the_lines_in_the_card_write_nifti(finished, tmp_path, monkeypatch, kind):
    nibabel, sitk = pytest.importorskip("nibabel"), pytest.importorskip("SimpleITK")
    predictor = volumes(shape=VOLUME if kind == "whole" else PLANE, volumes=kind, axis=1)
    images = tmp_path / "images"
    made = write_export(load_run(finished), predictor, tmp_path / "bundle", "monai-bundle")
    assert made[0] == 0
    images.mkdir()
    affine = np.array([[0, -0.7, 0, 3], [1.1, 0, 0, -9], [0, 0, 2.5, 40], [0, 0, 0, 1]])
    for number, shape in enumerate(((6, 7, 5), (19, 9, 14))):
        values = (9 * image_of(shape, 1, np.float32)[..., 0] - 800).astype(np.int16)
        nibabel.Nifti1Image(values, affine).to_filename(images / f"{number}.nii.gz")
    run_bundle(tmp_path / "bundle", images, tmp_path)
    monkeypatch.chdir(tmp_path / "bundle" / "models")
    card = model_card(load_run(finished), "onnx", predictor.format)
    for number in range(2):
        image = images / f"{number}.nii.gz"
        predict_volume(predictor, image, tmp_path / "ours")
        (tmp_path / "bundle" / "models" / "image.nii.gz").write_bytes(image.read_bytes())
        run_card(card, {})
        ours = nibabel.load(tmp_path / "ours.nii.gz")
        for path in (tmp_path / f"{number}_mask.nii.gz", "mask.nii.gz"):
            theirs = nibabel.load(path)
            np.testing.assert_allclose(theirs.affine, ours.affine, atol=1e-6)
            assert theirs.get_data_dtype() == np.uint8
            np.testing.assert_array_equal(np.asarray(theirs.dataobj), np.asarray(ours.dataobj))
    assert sitk.ReadImage("mask.nii.gz").GetSize() == shape


def run_bundle(folder, images, masks):
    configs = folder / "configs"
    places = {"config_file": configs / "inference.json", "meta_file": configs / "metadata.json"}
    places |= {"bundle_root": folder, "dataset_dir": images, "output_dir": masks}
    run_monai = pytest.importorskip("monai.bundle").run
    run_monai(**{name: str(place) for name, place in places.items()})


def test_onnxruntime_opens_no_telemetry_session(tmp_path):
    environment = {key: v for key, v in os.environ.items() if key != "ORT_DISABLE_TELEMETRY"}
    code = "from feda3i.export.onnx_file import need; need('onnxruntime'); import onnxruntime"
    command = [sys.executable, "-c", code]
    subprocess.run(command, check=True, env={**environment, "TMPDIR": str(tmp_path)})
    assert not [*tmp_path.iterdir()]
