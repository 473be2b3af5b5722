"""Exports of models that slide a window give the masks of ``feda3i predict``, at any size."""

from pathlib import Path

import numpy as np
import pytest
import torch

from feda3i.core.normalise import Normalise
from feda3i.errors import RunError
from feda3i.export import bundle, exporters
from feda3i.export.card import snippet_of
from feda3i.export.graph import graph_of
from small_predictors import predictor_of

PLANE, VOLUME = (16, 20), (8, 12, 8)
ZSCORE = Normalise("zscore")


def image_of(shape, channels, dtype=np.float32):
    (image,) = exporters.samples(shape, channels, [(1.0, 1.0)])
    return image.astype(dtype)


def answer(graph, image):
    with torch.inference_mode():
        return graph(torch.from_numpy(np.moveaxis(image, -1, 0))).numpy()


def volumes(shape=VOLUME, **form):
    made = {"classes": 2, "patches": True, "normalise": ZSCORE, "keeps_values": True}
    return predictor_of(shape, **made | {"volumes": "whole"} | form)


@pytest.mark.parametrize("overlap", [0.0, 0.3, 0.75])
def test_pictures_of_any_size(overlap):
    predictor = predictor_of(PLANE, channels=3, classes=2, patches=True, overlap=overlap)
    with torch.inference_mode():
        graph = graph_of(predictor).scripted()
    for shape in ((16, 20), (5, 7), (2, 61), (40, 9), (33, 52)):
        image = image_of(shape, 3, np.uint8)
        expected = predictor.picture(image)
        assert expected.shape == shape
        np.testing.assert_array_equal(answer(graph, image), expected)
    assert set(np.unique(expected)) == {0, 1, 2}


@pytest.mark.parametrize(
    "rule",
    [ZSCORE, Normalise("percentiles", "nonzero"), Normalise("window", by=(20.0, 200.0))],
    ids=lambda rule: rule.name,
)
def test_volumes_of_any_size(rule):
    predictor = volumes(normalise=rule)
    with torch.inference_mode():
        graph = graph_of(predictor).scripted()
    for shape in ((8, 12, 8), (3, 5, 4), (21, 6, 9), (15, 25, 13)):
        image = 7 * image_of(shape, 1) - 300
        image[0, :3] = 0
        expected = predictor.picture(image)
        np.testing.assert_array_equal(answer(graph, image), expected)
    assert len(np.unique(expected)) > 1


def test_windows_over_cases_that_are_squeezed_first():
    predictor = predictor_of(PLANE, patches=True, size=40, normalise=ZSCORE)
    with torch.inference_mode():
        graph = graph_of(predictor).scripted()
    image = image_of((61, 90), 1)
    assert (answer(graph, image) != predictor.picture(image)).mean() < 1e-3


def test_a_wrong_weight_is_seen(tmp_path):
    """The check of an export would not keep a file whose windows are blended otherwise."""
    predictor = volumes()
    graph = graph_of(predictor)
    graph.look.weight.fill_(1.0)
    ask = exporters.write_torchscript(graph, tmp_path / "model.ts")
    with pytest.raises(RunError, match="other masks than feda3i predict"):
        exporters.check_alike(ask, predictor, "torchscript")


@pytest.mark.parametrize("shape", [PLANE, VOLUME], ids=["pictures", "volumes"])
def test_torchscript_is_checked(tmp_path, shape):
    predictor = predictor_of(shape, classes=2, patches=True, normalise=ZSCORE)
    ask = exporters.write_torchscript(graph_of(predictor), tmp_path / "model.ts")
    assert exporters.check_alike(ask, predictor, "torchscript")[0] == 0


@pytest.mark.slow
@pytest.mark.parametrize("shape", [PLANE, VOLUME], ids=["pictures", "volumes"])
@pytest.mark.parametrize("write", [exporters.write_onnx, exporters.write_torch_export])
def test_onnx_and_torch_export_hold_the_loop(tmp_path, shape, write):
    pytest.importorskip("onnxruntime")
    predictor = predictor_of(shape, classes=2, patches=True, normalise=ZSCORE)
    path = tmp_path / "model"
    ask = write(graph_of(predictor), path)
    assert exporters.check_alike(ask, predictor, "file")[0] == 0
    assert str(Path(exporters.__file__).parent).encode() not in path.read_bytes()


def test_what_a_bundle_cannot_do_is_refused():
    pytest.importorskip("monai")
    for form, word in (({"volumes": None}, "prepared"), ({"normalise": Normalise()}, "bytes")):
        with pytest.raises(RunError, match=word):
            bundle.check_bundle(volumes(keeps_values=False, **form).format)


def test_the_lines_in_the_card_read_nifti(tmp_path, monkeypatch):
    nibabel = pytest.importorskip("nibabel")
    predictor = volumes(axis=0)
    exporters.write_torchscript(graph_of(predictor), tmp_path / "model.ts")
    write_nifti(nibabel, tmp_path / "image.nii.gz", (9, 17, 13))
    monkeypatch.chdir(tmp_path)
    exec(snippet_of("torchscript", predictor.format), {})
    np.testing.assert_array_equal(*both_masks(nibabel, predictor, tmp_path / "image.nii.gz"))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["whole", "slices"])
def test_monai_reads_and_writes_nifti(tmp_path, kind):
    nibabel = pytest.importorskip("nibabel")
    bundles = pytest.importorskip("monai.bundle")
    predictor = volumes(VOLUME if kind == "whole" else PLANE, volumes=kind, axis=1)
    out, images = tmp_path / "bundle", tmp_path / "images"
    about = bundle.metadata_of(predictor.format, "tiny", ["one", "two"])
    ask = bundle.write_bundle(graph_of(predictor), predictor.format, out, about, "card")
    assert exporters.check_alike(ask, predictor, "monai-bundle")[0] == 0
    images.mkdir()
    for number, shape in enumerate(((6, 7, 5), (19, 9, 14))):
        write_nifti(nibabel, images / f"{number}.nii.gz", shape)
    bundles.run(
        config_file=str(out / "configs" / "inference.json"),
        meta_file=str(out / "configs" / "metadata.json"),
        bundle_root=str(out),
        dataset_dir=str(images),
        output_dir=str(tmp_path),
    )
    for number in range(2):
        theirs, ours = both_masks(
            nibabel, predictor, images / f"{number}.nii.gz", tmp_path / f"{number}_mask.nii.gz"
        )
        np.testing.assert_array_equal(theirs, ours)


def write_nifti(nibabel, path, shape):
    """Write a volume with unlike voxels and values beyond bytes."""
    affine = np.array([[0, -0.7, 0, 3], [1.1, 0, 0, -9], [0, 0, 2.5, 40], [0, 0, 0, 1]])
    values = (9 * image_of(shape, 1)[..., 0] - 800).astype(np.int16)
    nibabel.Nifti1Image(values, affine).to_filename(path)


def both_masks(nibabel, predictor, image, mask=None):
    """Return the mask that was written and that of predict; their geometry must be the same."""
    from feda3i.commands.predict_volumes import predict_volume

    stem = image.with_name("ours")
    predict_volume(predictor, image, stem, overlay=False)
    theirs = nibabel.load(mask or image.with_name("mask.nii.gz"))
    ours = nibabel.load(f"{stem}.nii.gz")
    np.testing.assert_allclose(theirs.affine, ours.affine, atol=1e-6)
    assert theirs.get_data_dtype() == np.uint8
    return np.asarray(theirs.dataobj), np.asarray(ours.dataobj)
