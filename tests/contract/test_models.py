"""What every network must do, whether ours, MONAI's or a plug-in."""

import copy
import subprocess
import sys

import pytest
import torch

from feda3i.errors import RecipeError
from feda3i.models import REGISTRY, build
from feda3i.models.stages import find_stages

FACTORY = """
from torch import nn

def plain(channels, classes, features=4):
    return nn.Sequential(
        nn.Conv2d(channels, features, 3, padding=1), nn.BatchNorm2d(features),
        nn.ReLU(), nn.Conv2d(features, classes, 1))

def fixed() -> nn.Module: return plain(3, 2)
def careful(shape, **options):
    assert set(options) <= {"depth"}
    return plain(3, 2)
def wrong(channels, classes): return "a network"
number = 3
"""


@pytest.fixture(scope="module")
def plugin(tmp_path_factory):
    file = tmp_path_factory.mktemp("plugin") / "nets.py"
    file.write_text(FACTORY)
    return str(file)


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        *[(name, (64, 64)) for name in REGISTRY.names()],
        *[("unet", (16, 21, 24)), ("monai:UNet", (16, 16, 32)), ("monai:SegResNet", (16, 32, 16))],
        *[("monai:AttentionUnet", (16, 16, 16)), ("monai:UNet", (36, 20))],
        pytest.param("monai:SwinUNETR", (64, 64, 64), marks=pytest.mark.slow),
        ("file", (33, 20)),
    ],
)
def test_builds_divides_and_learns(name, shape, plugin):
    name = f"{plugin}:plain" if name == "file" else name
    torch.manual_seed(0)
    model = build(name, channels=3, classes=2, shape=shape)
    x = torch.rand(2, 3, *shape) * 255
    stages = find_stages(model, x)
    held = [key for stage in stages for key in stage.keys]
    assert len(stages) >= 3
    assert sorted(held) == sorted(model.state_dict())
    assert find_stages(copy.deepcopy(model), x) == stages

    model.train()(x).square().mean().backward()
    gradients = [p.grad for p in model.parameters() if p.grad is not None]
    assert gradients
    assert all(torch.isfinite(gradient).all() for gradient in gradients)


@pytest.mark.parametrize(
    ("name", "options", "count"),
    [
        ("monai:UNet", {"num_res_units": 0, "norm": "batch"}, 8),
        ("monai:AttentionUnet", {}, 9),
        ("monai:SegResNet", {"upsample_mode": "deconv"}, 12),
        ("monai:SwinUNETR", {"use_v2": True}, 12),
    ],
)
def test_stages_of_monai_are_found_as_those_of_any_network(name, options, count):
    model = build(name, channels=3, classes=1, shape=(64, 64), options=options)
    stages = find_stages(model, torch.zeros(1, 3, 64, 64))
    assert len(stages) == count
    kernels = {key for key, value in model.state_dict().items() if value.ndim > 1}
    assert all(kernels & set(stage.keys) for stage in stages), "no stage of single numbers"


@pytest.mark.parametrize(
    ("name", "shape", "options", "message"),
    [
        ("unett", (64, 64), {}, "did you mean 'unet'"),
        ("monai:SegResNets", (64, 64), {}, "did you mean 'SegResNet'"),
        ("nowhere.module:net", (64, 64), {}, "no module 'nowhere.module'"),
        ("unet", (64, 64), {"witdh": 8}, "no option 'witdh', did you mean 'width'"),
        ("unet", (64, 64), {"channels": 8}, "channels comes from the data"),
        ("unet", (64, 64), {"width": "wide"}, "expected a whole number"),
        ("unet", (15, 64), {}, "at least 16 px"),
        ("unet", (64,), {}, "two or three dimensions"),
        ("monai:UNet", (64, 64), {"featurs": (4, 8)}, "did you mean 'features'"),
        ("monai:UNet", (33, 64), {}, "even sides"),
        ("monai:SwinUNETR", (48, 64), {}, "multiples of 32"),
        ("monai:SegResNet", (64, 64), {"init_filters": 3}, "could not be built"),
        ("FILE:plain", (64, 64), {"feature": 3}, "no option 'feature', did you mean 'features'"),
        ("FILE:plain", (64, 64), {"input": "raw"}, "expected one of normalised, paper"),
        ("FILE:plian", (64, 64), {}, "did you mean 'plain'"),
        ("FILE:wrong", (64, 64), {}, "expected a torch.nn.Module"),
        ("FILE:number", (64, 64), {}, "expected a function or class"),
        ("missing.py:net", (64, 64), {}, "no file"),
    ],
)
def test_user_mistakes_are_explained(name, shape, options, message, plugin):
    with pytest.raises(RecipeError, match=message):
        build(name.replace("FILE", plugin), channels=1, classes=1, shape=shape, options=options)


def test_factories_get_what_their_signature_takes_and_scaling_changes_no_name(plugin):
    ask = {"channels": 3, "classes": 2, "shape": (32, 32)}
    assert build(f"{plugin}:fixed", **ask)[3].out_channels == 2
    assert build(f"{plugin}:careful", **ask, options={"depth": 3})[3].out_channels == 2
    assert build(f"{plugin}:plain", **ask, options={"features": 6})[0].out_channels == 6
    x, ours = torch.rand(1, 3, 32, 32) * 255, build(f"{plugin}:plain", **ask).eval()
    paper = build(f"{plugin}:plain", **ask, options={"input": "paper"}).eval()
    paper.load_state_dict(ours.state_dict())
    torch.testing.assert_close(ours(x), paper((x - 128) / 64))


def test_listing_names_does_not_import_torch_and_a_missing_extra_is_named():
    code = (
        "import sys; from feda3i.models import REGISTRY, build; REGISTRY.names(); "
        "assert 'torch' not in sys.modules; sys.modules['monai'] = None; "
        "REGISTRY.get('monai:UNet')"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    last = run.stderr.splitlines()[-1]
    assert "RecipeError" in last
    assert "pip install 'feda3i[monai]'" in last
