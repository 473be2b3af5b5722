"""Divide a network's tensors into stages, ordered by depth, so that Eq. 7 works for any network.

The ramp of Eq. 7 rises by one step per stage, so a stage is a block of the architecture and no
single number. The rule, first that applies:

1. the network names its stages itself, ``stages = ("inc", "down1", ...)``: paths of modules, or
   ``stages = {"up1": ("upsample.0", "up.0"), ...}``: names and the paths that each one holds;
2. its top-level children with tensors, if there are at least three, in order of first use in a
   forward pass; a list of modules stands for its members, since only they are called;
3. the modules that hold tensors themselves, in that order (a network wrapped in one child), with
   those in one stage that follow each other at one resolution, if that gives at least three.

In 2 and 3 a module without a matrix or kernel (a norm, a PReLU) joins the one used before it, as
long as three stages remain. A module that the pass does not call, and tensors of the network
itself, join the one defined before. Tied tensors belong to the stage that uses them first.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from feda3i.core.layout import Stage
from feda3i.errors import RecipeError, nearest

# With two stages the ramp of Eq. 7 would jump from quantity weights to quality weights at once.
FEWEST_CHILDREN = 3

Space = tuple[int, ...]
Calls = Mapping[str, Space | None]
"""Called modules in order of first call, each with the size in space of the image it returns."""


def find_stages(model: nn.Module, example: Tensor | None = None) -> list[Stage]:
    """Return the stages of a network from input to output; every state-dict key is in exactly one.

    One forward pass of the example ``(case, channel, *space)`` leaves the network as it was;
    without an example the network must name its stages.

    >>> net = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Conv2d(4, 1, 1))
    >>> [stage.name for stage in find_stages(net, torch.zeros(1, 1, 8, 8))]
    ['0', '2']
    """
    kind = type(model).__name__
    state = model.state_dict(keep_vars=True)
    if not state:
        raise RecipeError(f"{kind} has no tensors, so there is nothing to train")
    first: dict[int, str] = {}
    tied = {key: first.setdefault(id(value), key) for key, value in state.items()}
    calls = {} if example is None else _first_uses(model, example)
    own = getattr(model, "stages", None)
    if own is not None:
        paths = dict(own) if isinstance(own, Mapping) else {name: (name,) for name in own}
        if not paths or len(paths) != len(own):
            raise RecipeError(f"{kind}.stages: expected distinct names, found {list(own)}")
        return _by_name(kind, paths, tied)
    if example is None:
        raise RecipeError(
            f"{kind} names no stages; give an example input to find them, or set its attribute "
            "stages to the paths of its modules"
        )
    return _by_use(model, state, tied, calls)


def _by_name(kind: str, paths: Mapping[str, Sequence[str]], tied: Mapping[str, str]) -> list[Stage]:
    names = list(paths)
    found: dict[str, list[str]] = {name: [] for name in names}

    def holders(key: str) -> list[str]:
        return [n for n in names for p in paths[n] if key == p or key.startswith(f"{p}.")]

    for key, first in tied.items():
        matches = holders(key)
        if len(matches) != 1:
            problem = "in none of" if not matches else "in more than one of"
            raise RecipeError(
                f"{kind}.stages: the tensor '{key}' is {problem} the stages {', '.join(names)}; "
                "every tensor must belong to exactly one"
            )
        found[min(matches + holders(first), key=names.index)].append(key)
    for name, held in found.items():
        if not held:
            known = sorted({part for key in tied for part in _ancestors(key)})
            raise RecipeError(f"{kind}.stages: '{name}' holds no tensor{nearest(name, known)}")
    return [Stage(name, tuple(held)) for name, held in found.items()]


def _by_use(
    model: nn.Module, state: Mapping[str, Tensor], tied: Mapping[str, str], calls: Calls
) -> list[Stage]:
    order: dict[str, int] = {}  # of the first use of a module or of one inside it
    for position, call in enumerate(calls):
        for part in _ancestors(call):
            order.setdefault(part, position)

    def use(unit: str) -> int:
        return order.get(unit, -1)

    units = _called([_child(model, key) for key in state], order)
    is_wrapped = len(set(units)) < FEWEST_CHILDREN
    if is_wrapped:
        units = _called([key.rpartition(".")[0] for key in state], order)
    large = {unit for unit, value in zip(units, state.values(), strict=True) if value.ndim > 1}
    in_order = sorted(dict.fromkeys(units), key=use)
    units = _joined(units, _without_small(in_order, large))
    if is_wrapped:
        in_order = sorted(dict.fromkeys(units), key=use)
        units = _joined(units, _by_resolution(in_order, calls))
    unit_of = dict(zip(state, units, strict=True))
    for key, first in tied.items():  # the earlier use wins for all names of the tensor
        unit_of[first] = min(unit_of[first], unit_of[key], key=use)
    stages: dict[str, list[str]] = {}
    for key, first in tied.items():
        stages.setdefault(unit_of[first], []).append(key)
    if len(stages) < 2:
        raise RecipeError(
            f"{type(model).__name__}: expected at least two stages, found {len(stages)}: its "
            "forward pass calls too few modules that hold tensors; set its attribute stages to "
            "the paths of its modules"
        )
    return [Stage(unit, tuple(stages[unit])) for unit in sorted(stages, key=use)]


def _child(model: nn.Module, key: str) -> str:
    """Return the path of the top-level child that holds a tensor; lists stand for their members."""
    module: nn.Module = model
    path: list[str] = []
    for part in key.split(".")[:-1]:
        path.append(part)
        module = getattr(module, part)
        if not isinstance(module, nn.ModuleList | nn.ModuleDict):
            break
    return ".".join(path)


def _called(owners: list[str], order: Mapping[str, int]) -> list[str]:
    """Replace owners that the pass never called by a called one defined before (or after) them."""
    last = next((owner for owner in owners if owner and owner in order), "")
    units = []
    for owner in owners:
        last = owner if owner and owner in order else last
        units.append(last)
    return units


def _joined(units: list[str], joins: Mapping[str, str]) -> list[str]:
    """Return the coarser division unless it leaves too few stages."""
    fewer = [joins[unit] for unit in units]
    return fewer if len(set(fewer)) >= FEWEST_CHILDREN else units


def _without_small(in_order: Sequence[str], large: set[str]) -> dict[str, str]:
    """Let units without a tensor of two dimensions join the unit that is used before them."""
    joins, last = {}, next((unit for unit in in_order if unit in large), "")
    for unit in in_order:
        last = unit if unit in large else last
        joins[unit] = last
    return joins


def _by_resolution(in_order: Sequence[str], calls: Calls) -> dict[str, str]:
    """Put units that follow each other at one resolution together, under the name of the first."""
    joins, last = {}, ""
    space: Space | None = None
    for unit in in_order:
        leaves = calls.get(unit)
        if not last or (leaves is not None and leaves != space):
            last = unit
        space = leaves or space
        joins[unit] = last
    return joins


def _ancestors(path: str) -> Iterator[str]:
    """Yield the path itself and all modules around it, innermost first."""
    while path:
        yield path
        path = path.rpartition(".")[0]
    yield ""


def _first_uses(model: nn.Module, example: Tensor) -> Calls:
    calls: dict[str, Space | None] = {}
    names: dict[nn.Module, list[str]] = {}
    for name, module in model.named_modules(remove_duplicate=False):
        names.setdefault(module, []).append(name)

    def enter(module: nn.Module, _: Any) -> None:
        for name in names[module]:
            calls.setdefault(name, None)

    def leave(module: nn.Module, _: Any, out: Any) -> None:
        is_image = isinstance(out, Tensor) and out.ndim == example.ndim
        for name in names[module]:
            calls[name] = calls[name] or (tuple(out.shape[2:]) if is_image else None)

    handles = [module.register_forward_pre_hook(enter) for module in names]
    handles += [module.register_forward_hook(leave) for module in names]
    try:
        with _undisturbed(model):
            model(example.to(next(iter(model.state_dict().values())).device))
    except (RuntimeError, ValueError, TypeError, IndexError) as error:
        raise RecipeError(
            f"{type(model).__name__} cannot process images of shape {tuple(example.shape)} "
            f"(case, channel, *space): {error}"
        ) from error
    finally:
        for handle in handles:
            handle.remove()
    return calls


@contextmanager
def _undisturbed(model: nn.Module) -> Iterator[None]:
    """Run in eval mode without gradients; put modes, buffers and random state back afterwards."""
    modes = {module: module.training for module in model.modules()}
    buffers = [(buffer, buffer.clone()) for buffer in model.buffers()]
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        model.eval()
        try:
            yield
        finally:
            for module, training in modes.items():
                module.training = training
            for buffer, before in buffers:
                buffer.copy_(before)
