"""The model as a safetensors file that says how to build its network."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from feda3i import __version__
from feda3i.core.messages import Params
from feda3i.engine.job import Job, format_of
from feda3i.engine.manifest import FORMAT
from feda3i.errors import RecipeError, RunError
from feda3i.recipe import validate
from feda3i.recipe.sections import without_machine
from feda3i.recipe.trust import announce, check_trust

if TYPE_CHECKING:
    from feda3i.core.predictor import Predictor

MAX_SIDE = 2**16


def model_bytes(job: Job, params: Params) -> bytes:
    """Return the model as a safetensors file that says how to build its network."""
    from safetensors.torch import save

    # Without places: they must not change the file, nor the name of a hospital's folder travel.
    about = {
        "format": FORMAT,
        "recipe": without_machine(job.recipe.shared()),
        "channels": job.format.channels,
        "classes": job.format.classes,
        "shape": list(job.format.shape),
    }
    # One key only: the library writes several metadata keys in no fixed order.
    tensors, text = job.layout.tensors(params), json.dumps(about, sort_keys=True)
    return bytes(save(tensors, metadata={"feda3i": text}))


def read_model(path: Path, *, trust_code: bool = False) -> tuple[Job, dict[str, Any]]:
    """Return the job and the named tensors of a model file.

    A model file may come from anywhere: unless its code is trusted, it names what is installed.
    """
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="pt") as file:
            about = json.loads((file.metadata() or {})["feda3i"])
            names = list(file.keys())
            tensors = {name: file.get_tensor(name) for name in names}
    except FileNotFoundError:
        raise RunError(f"there is no model at '{path}'; is the run done? feda3i resume") from None
    except (SafetensorError, KeyError, ValueError, OSError) as error:
        raise RunError(f"'{path}' is not a model file of feda3i: {error}") from None
    try:
        recipe = validate(about["recipe"])
        channels, classes = int(about["channels"]), int(about["classes"])
        form = format_of(recipe, channels, classes, [int(side) for side in about["shape"]])
    except (KeyError, TypeError, ValueError, RecipeError) as error:
        raise RunError(
            f"'{path}' is not a model file of feda3i {__version__} (0.1 has its own): {error}"
        ) from None
    is_sane = 1 <= channels <= 64 and 1 <= classes <= 255
    if not is_sane or not all(1 <= side <= MAX_SIDE for side in form.shape):
        raise RunError(f"'{path}': {channels} channels, {classes} classes, {form.shape} cannot be")
    check_trust(recipe, path, trust_code)
    return Job(recipe, form), tensors


def open_predictor(path: Path, *, trust_code: bool = False, best: bool = False) -> Predictor:
    """Return the model of a file, or the last or best one of a run folder, ready to predict.

    Code that the file names is loaded only if it is trusted, and the user is told which.
    """
    from feda3i.core.predictor import Predictor

    if not path.is_file():
        from feda3i.engine.run_folder import RunFolder

        run = RunFolder.open(path)
        run.check_model()
        if best:
            run.check_best()
        path = run.best_model if best else run.model
    job, tensors = read_model(path, trust_code=trust_code)
    announce(job.recipe)
    network = job.network()
    try:
        network.load_state_dict(tensors)
    except RuntimeError as error:
        raise RunError(f"'{path}' does not fit its own recipe: {error}") from None
    return Predictor(network, job.layout, job.format, job.device())
