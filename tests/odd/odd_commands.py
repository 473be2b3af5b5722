"""Odd recipes and command lines: every key, command and option, found by introspection."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import typer
from odd_values import FRACTIONS, PLAIN, WHOLE, is_large, mutated, spoil, text, toml_value

from feda3i.cli import app
from feda3i.commands.keys import all_keys, options_of
from feda3i.recipe.finding import FOLDER, built_in
from feda3i.recipe.trust import registries
from short import TINY

Maker = Callable[[Path, Path, Random], "Odd"]
OUT = "out"  # where commands may write, below the folder of the input


@dataclass(frozen=True)
class Odd:
    """One input: what it is about, the arguments, and whether it may rightly take long."""

    kind: str
    arguments: list[str]
    is_long: bool = False
    about: str = ""


def odd_input(folder: Path, good: Path, draw: Random, is_quick: bool = False) -> Odd:
    """Write the files of one odd input into the folder and return its command.

    A quick one does not train.
    """
    makers = (_recipe, _recipe, _toml, _command, _command, _run_folder, _set, _results, _grid)
    if not is_quick:
        return draw.choice((*makers, _mild, _mild, _run_folder))(folder, good, draw)
    while True:
        odd = draw.choice(makers)(folder, good, draw)
        if not odd.is_long or odd.kind not in ("recipe", "command"):
            return odd
        shutil.rmtree(folder)
        folder.mkdir()


# What keeps a run at a fraction of a second.
SMALL = dict(part.split("=") for part in TINY[2:]) | {"rounds": "1", "engine.device": "cpu"}
OVERRIDES = ["data=synthetic", *(f"{key}={value}" for key, value in SMALL.items())]
WRONG_KEYS = (
    *("nope", "Rounds", "data.nope", "data.name.x", "rounds.x", "train", "engine", "methods"),
    *("method.name", "noise.annotators", "noise.annotators.site-01.mu", "methods.feda3i.t1"),
    *(".", "", "a.b.c.d", "fedavg.loss", "train.betas.x", "data.", ".data", "ä", "title"),
    *("seed.", "x" * 300),
)


@cache
def keys() -> dict[str, str]:
    """Return what every key of a recipe takes: of the sections, and of all that they can name."""
    found = {key.name: key.takes for key in all_keys()}
    return found | {name.rpartition(".")[0] or name: "table" for name in found}


def small(draw: Random) -> tuple[dict[str, str], dict[str, str]]:
    """Return a small recipe of some method, and what the options of its things take."""
    known = registries()
    chosen = {
        "data": draw.choice(("synthetic-skin", "synthetic-breast")),
        "method": draw.choice(known["method"].names()),
        "noise": draw.choice(known["noise"].names()),
        "model": "unet" if draw.random() < 0.9 else draw.choice(known["model"].names()),
    }
    values = {**chosen, **SMALL, "noise.setting": draw.choice(("skin-ns", "breast-ne"))}
    if draw.random() < 0.4:
        values["rounds"] = "3"
    if chosen["model"] != "unet":
        del values["model.width"]
    own = {
        key.name: key.takes
        for section, registry in known.items()
        for key in options_of(section, chosen[section], registry.get(chosen[section]))
    }
    return values, own


def assignments(draw: Random) -> dict[str, str]:
    """Return the keys and values of a recipe with one to three odd values."""
    values, own = small(draw)
    for _ in range(draw.choice((1, 1, 1, 2, 3))):
        pool = draw.choice((keys(), keys(), own, own, WRONG_KEYS, values))
        values[draw.choice(tuple(pool) or WRONG_KEYS)] = text(draw)
    return values


def mild(draw: Random) -> dict[str, str]:
    """Return a recipe whose odd values are at least of the right type, so that a run begins."""
    values, own = small(draw)
    # engine.compile would call a C++ compiler for a minute.
    common = re.compile(r"(train|evaluate|engine(?!\.compile)|validation)\.")
    own |= {k: takes for k, takes in keys().items() if common.match(k) and k not in values}
    for key in draw.sample(sorted(own), draw.choice((1, 2, 3))):
        values[key] = typed(own[key], draw)
    return values


def typed(takes: str, draw: Random) -> str:
    """Return a value of what a key takes in words, from its range and from beyond its ends."""
    part = draw.choice(re.split(r", or |, | or ", takes))
    if part.startswith("list of"):
        values = WHOLE if "whole" in part else FRACTIONS
        return f"[{', '.join(draw.choice(values) for _ in range(draw.choice((1, 2, 2, 3))))}]"
    for kind, values in (("whole number", WHOLE), ("number", FRACTIONS)):
        if part.startswith(kind):
            return draw.choice(values)
    return draw.choice(PLAIN) if part in ("text", "path", "table", "any value") else part


def toml(values: dict[str, str], draw: Random) -> bytes:
    """Return the values as a TOML file, a quarter of the time with some bytes wrong."""
    names = {"synthetic", "skin-ns", "breast-ne", "cpu"}.union(
        *(registry.names() for registry in registries().values())
    )
    lines = []
    for key, value in values.items():
        bare = f"{key}.name" if key in registries() else key
        lines.append(f"{bare} = {repr(value) if value in names else toml_value(value, draw)}")
    data = "\n".join(lines).encode("utf-8", "surrogatepass")
    return mutated(data, draw) if draw.random() < 0.25 else data


def _copy(good: Path, folder: Path, *names: str) -> None:
    for name in names:
        copy = shutil.copytree if (good / name).is_dir() else shutil.copy
        copy(good / name, folder / name)


def _recipe(folder: Path, good: Path, draw: Random) -> Odd:
    plugins = ("method", "network", "noise", "thing", "exits", "syntax")
    _copy(good, folder, *(f"{name}.py" for name in plugins))
    values = assignments(draw)
    if draw.random() < 0.15:
        kind = draw.choice(("method", "data", "model", "noise"))
        plugin = draw.choice((*plugins, "none"))
        values[kind] = f"{plugin}.py:{draw.choice(('Thing', 'fails', 'Nothing', ''))}"
    return _run_of("recipe", values)


def _mild(folder: Path, good: Path, draw: Random) -> Odd:
    return _run_of("mild recipe", mild(draw))


def _run_of(kind: str, values: dict[str, str]) -> Odd:
    pairs = [f"{key}={value}" for key, value in values.items()]
    arguments = ["run", "demo", *pairs, "--out", OUT]
    return Odd(kind, arguments, values["model"] != "unet" or any(map(is_large, values.values())))


def _toml(folder: Path, good: Path, draw: Random) -> Odd:
    values = assignments(draw)
    if is_whole := draw.random() < 0.7:
        data = toml(values, draw)
    else:
        data = mutated((FOLDER / f"{draw.choice(built_in())}.toml").read_bytes(), draw)
    (folder / "odd.toml").write_bytes(data)
    small = [] if is_whole else OVERRIDES
    return Odd("toml", ["run", "odd.toml", *small, "--out", OUT], is_long=True)


def _run_folder(folder: Path, good: Path, draw: Random) -> Odd:
    name = draw.choice(("done", "survey", "open", "open"))
    shutil.copytree(good / name, folder / OUT)
    shutil.copytree(good / "set" / "images", folder / "images")
    about = spoil(folder / OUT, draw)
    command = draw.choice(RUN_FOLDER).split()
    # torch does not let Ctrl-C through while it exports: it gets the time that it needs
    return Odd("run folder", command, is_long=command[0] != "export", about=f"{name}: {about}")


RUN_FOLDER = (
    *("resume out", "resume out", "evaluate out", "report out --out out/page.html"),
    "predict out images --out out/masks",
    "predict out/model.safetensors images --out out/masks",
    "run out/recipe.toml --out out/again",
    "audit out --out out/audit",
    "audit out/recipe.toml --estimator edges --out out/audit",
    "tables out --out out/tables",
    "export out --to onnx --out out/x",
    "export out --to monai-bundle --out out/x",
)
OF_GRID = (
    "bench grids/grid.toml --dry-run --results results",
    "tables results --grid grids/grid.toml --out out",
)
OF_SET = (
    "check set",
    "run demo data=set method=fedavg noise=none rounds=1 data.sites=2 data.size=32 model.width=4 "
    "train.epochs=1 engine.workers=1 --out out",
    "noise apply set/masks out --mu 2 --sigma 1",
    "predict done set/images --out out",
    "evaluate done --data set",
)


def _spoiled(kind: str, commands: Sequence[str], is_long: bool, *names: str) -> Maker:
    """Return a maker that copies good things, spoils the first and takes one of the commands."""

    def make(folder: Path, good: Path, draw: Random) -> Odd:
        _copy(good, folder, *names)
        about = spoil(folder / names[0], draw)
        return Odd(kind, draw.choice(commands).split(), is_long, about)

    return make


_set = _spoiled("set", OF_SET, False, "set", "done")
_grid = _spoiled("grid", OF_GRID, True, "grids", "results")
_results = _spoiled("results", (*OF_GRID, "tables results --out out"), True, "results", "grids")


@cache
def commands() -> list[tuple[tuple[str, ...], Any]]:
    """Return the words of every command of the program, and the command."""
    found, groups = [], [((), typer.main.get_command(app))]
    while groups:
        words, group = groups.pop()
        for name, inner in sorted(group.commands.items()):
            (groups if hasattr(inner, "commands") else found).append(((*words, name), inner))
    return found


# Commands that take their time even when everything is right.
LONG = ("demo", "pdn", "gallery", "check", "run", "init", "audit")


def _command(folder: Path, good: Path, draw: Random) -> Odd:
    _copy(good, folder, "done", "open", "set", "method.py", "thing.py", "exits.py")
    words, command = draw.choice(commands())
    arguments = list(words)
    for parameter in command.params:
        arguments += _parameter(parameter, draw)
    if draw.random() < 0.1:
        arguments.append(draw.choice(("--nope", "--help", "-x", "--")))
    if words == ("deploy", "demo"):  # would start servers; what it does is tested elsewhere
        arguments.append("--nope")
    is_long = words[-1] in LONG or any(map(is_large, arguments))
    if words[-1] == "run":
        arguments += OVERRIDES
    return Odd("command", arguments, is_long)


def _parameter(parameter: Any, draw: Random) -> list[str]:
    if draw.random() > (0.97 if parameter.required else 0.35):
        return []
    if parameter.param_type_name == "argument":
        count = draw.choice((1, 1, 2)) if parameter.nargs == -1 else 1
        return [_value(parameter, draw) for _ in range(count)]
    option = draw.choice((*parameter.opts, *parameter.secondary_opts))
    if parameter.is_flag:
        return [option]
    return [option, _value(parameter, draw)]


PLAUSIBLE: dict[str, tuple[str, ...]] = {
    "recipe": ("demo", "skin_ns-small", "done/recipe.toml", "set"),
    "overrides": ("rounds=1", "method=fedavg", "noise=none"),
    "folder": ("done", "open", "set", "done/model.safetensors", "done/recipe.toml"),
    "images": ("set/images", "set/images/case0.png", "done", "set"),
    "masks": ("set/masks", "set/masks/case0.png", "done"),
    "source": ("set", "done", "set/images"),
    "data": ("set", "done"),
    "names": ("set", "method", "model", "fedavg", "unet", "method.py:Thing", "exits.py:X"),
    "sites": ("2", "A,B", "A,A", "a b"),
    "option": ("mode=faithful", "points=0", "clip=true", "degree=abc", "x", "mu=1", "points=1e3"),
    "noise": ("contour", "levelset", "flip", "thing.py:Thing", "thing.py:fails"),
    "group": ("(", "(?P<group>[^_]+)_.*", "(?P<group>.)", "(a+)+$"),
    "classes": ("lesion", "a,b", ",", "a,a"),
    "site": ("A", "site-01"),
    "csv": (f"{OUT}/x.csv", "set", "done/recipe.toml/x.csv"),
}
WRITTEN = ("out", "target", "to", "mail", "problems", "csv", "server", "runs")
"""Options that name a place to write: odd ones stay below the folder of the input."""


def _value(parameter: Any, draw: Random) -> str:
    name = parameter.name
    if name in WRITTEN:
        places = ("", "/dev/null", "/dev/full", "/proc/nowhere/x", "y" * 300, "ä\n")
        return draw.choice((OUT, OUT, f"{OUT}/a/b", *places))
    if name in PLAUSIBLE and draw.random() < 0.6:
        return draw.choice(PLAUSIBLE[name])
    kind = parameter.type
    if hasattr(kind, "choices") and draw.random() < 0.6:
        return str(draw.choice(list(kind.choices)))
    if draw.random() < 0.4 and type(kind).__name__ in ("IntParamType", "IntRange", "FloatRange"):
        return draw.choice(("1", "2", "16", "32"))
    return text(draw)
