"""Odd command lines: every command and option, found by introspection, with odd arguments."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import odd_files
import odd_recipes
from odd_values import is_large, text

OUT = "out"
"""Where commands may write, below the folder of the input."""


@dataclass(frozen=True)
class Odd:
    """One input: what it is about, the arguments, and whether it may rightly take long."""

    kind: str
    arguments: list[str]
    is_long: bool = False
    about: str = ""


def odd_input(folder: Path, good: Path, draw: Random, is_quick: bool = False) -> Odd:
    """Write the files of one odd input into the folder and return its command."""
    makers = (_recipe, _recipe, _mild, _mild, _toml, _command, _command, _run_folder, _set)
    makers += (_run_folder, _results, _grid)
    if not is_quick:
        return draw.choice(makers)(folder, good, draw)
    while True:
        for leftover in folder.iterdir():
            shutil.rmtree(leftover) if leftover.is_dir() else leftover.unlink()
        quick = (_recipe, _recipe, _toml, _command, _command, _run_folder, _set, _results, _grid)
        odd = draw.choice(quick)(folder, good, draw)
        if not odd.is_long or odd.kind not in ("recipe", "command"):
            return odd


def _recipe(folder: Path, good: Path, draw: Random) -> Odd:
    for name in ("method.py", "network.py", "noise.py", "thing.py", "exits.py", "syntax.py"):
        shutil.copy(good / name, folder / name)
    values = odd_recipes.assignments(draw)
    if draw.random() < 0.15:
        kind = draw.choice(("method", "data", "model", "noise"))
        plugin = draw.choice(("method", "network", "noise", "thing", "exits", "syntax", "none"))
        values[kind] = f"{plugin}.py:{draw.choice(('Thing', 'fails', 'Nothing', ''))}"
    arguments = ["run", "demo", *odd_recipes.overrides(values), "--out", OUT]
    is_long = values["model"] != "unet" or any(map(is_large, values.values()))
    return Odd("recipe", arguments, is_long)


def _mild(folder: Path, good: Path, draw: Random) -> Odd:
    values = odd_recipes.mild(draw)
    arguments = ["run", "demo", *odd_recipes.overrides(values), "--out", OUT]
    is_long = values["model"] != "unet" or any(map(is_large, values.values()))
    return Odd("mild recipe", arguments, is_long)


def _toml(folder: Path, good: Path, draw: Random) -> Odd:
    values = odd_recipes.assignments(draw)
    is_whole = draw.random() < 0.7
    data = odd_recipes.toml(values, draw) if is_whole else odd_recipes.built_in_text(draw)
    (folder / "odd.toml").write_bytes(data)
    small = [] if is_whole else odd_recipes.overrides({"data": "synthetic", **odd_recipes.SMALL})
    return Odd("toml", ["run", "odd.toml", *small, "--out", OUT], is_long=True)


def _run_folder(folder: Path, good: Path, draw: Random) -> Odd:
    name = draw.choice(("done", "survey", "open", "open"))
    shutil.copytree(good / name, folder / OUT)
    shutil.copytree(good / "set" / "images", folder / "images")
    about = "; ".join(odd_files.spoil(folder / OUT, draw) for _ in range(draw.choice((1, 1, 2))))
    command = draw.choice(
        (
            ["resume", OUT],
            ["resume", OUT],
            ["evaluate", OUT],
            ["predict", OUT, "images", "--out", f"{OUT}/masks"],
            ["predict", f"{OUT}/model.safetensors", "images", "--out", f"{OUT}/masks"],
            ["run", f"{OUT}/recipe.toml", "--out", f"{OUT}/again"],
            ["audit", OUT, "--out", f"{OUT}/audit"],
            ["audit", OUT, "--survey", "--out", f"{OUT}/audit"],
            ["report", OUT, "--out", f"{OUT}/page.html"],
            ["tables", OUT, "--out", f"{OUT}/tables"],
            ["export", OUT, "--to", "onnx", "--out", f"{OUT}/x"],
            ["export", OUT, "--to", "monai-bundle", "--out", f"{OUT}/x"],
        )
    )
    # torch does not let Ctrl-C through while it exports: it gets the time that it needs
    return Odd("run folder", command, is_long=command[0] != "export", about=f"{name}: {about}")


def _results(folder: Path, good: Path, draw: Random) -> Odd:
    shutil.copytree(good / "results", folder / "results")
    shutil.copy(good / "grid.toml", folder / "grid.toml")
    about = "; ".join(odd_files.spoil(folder / "results", draw) for _ in range(draw.choice((1, 2))))
    command = draw.choice(
        (
            ["tables", "results", "--grid", "grid.toml", "--out", OUT],
            ["tables", "results", "--out", OUT],
            ["bench", "grid.toml", "--list", "--results", "results"],
            ["bench", "grid.toml", "--dry-run", "--results", "results"],
        )
    )
    return Odd("results", command, is_long=True, about=about)


def _grid(folder: Path, good: Path, draw: Random) -> Odd:
    shutil.copytree(good / "results", folder / "results")
    (folder / "grids").mkdir()
    shutil.copy(good / "grid.toml", folder / "grids" / "grid.toml")
    about = odd_files.spoil(folder / "grids", draw)
    command = draw.choice(
        (
            ["bench", "grids/grid.toml", "--list", "--results", "results"],
            ["bench", "grids/grid.toml", "--dry-run", "--results", "results"],
            ["tables", "results", "--grid", "grids/grid.toml", "--out", OUT],
        )
    )
    return Odd("grid", command, is_long=True, about=about)


def _set(folder: Path, good: Path, draw: Random) -> Odd:
    name = "set"
    shutil.copytree(good / name, folder / "set")
    shutil.copytree(good / "done", folder / "done")
    about = "; ".join(odd_files.spoil(folder / "set", draw) for _ in range(draw.choice((1, 2))))
    small = odd_recipes.overrides({**odd_recipes.SMALL, "method": "fedavg", "noise": "none"})
    command = draw.choice(
        (
            ["check", "set", "--workers", "1"],
            ["run", "demo", "data=set", *small, "--out", OUT],
            ["noise", "apply", "set/masks", OUT, "--mu", "2", "--sigma", "1", "--workers", "1"],
            ["predict", "done", "set/images", "--out", OUT],
            ["evaluate", "done", "--data", "set"],
        )
    )
    return Odd("set", command, about=f"{name}: {about}")


@cache
def commands() -> dict[tuple[str, ...], Any]:
    """Return every command of the program by its words."""
    import typer

    from feda3i.cli import app

    return dict(_walk((), typer.main.get_command(app)))


def _walk(words: tuple[str, ...], command: Any) -> Iterator[tuple[tuple[str, ...], Any]]:
    inner = getattr(command, "commands", None)
    if inner is None:
        yield words, command
        return
    for name, child in sorted(inner.items()):
        yield from _walk((*words, name), child)


LONG = ("demo", "pdn", "gallery", "check", "run", "init", "audit")
"""Commands that take their time even when everything is right."""


def _command(folder: Path, good: Path, draw: Random) -> Odd:
    for name in ("done", "open", "set"):
        shutil.copytree(good / name, folder / name)
    for name in ("method.py", "thing.py", "exits.py"):
        shutil.copy(good / name, folder / name)
    words, command = draw.choice(sorted(commands().items()))
    arguments = list(words)
    for parameter in command.params:
        arguments += _parameter(parameter, draw)
    if draw.random() < 0.1:
        arguments.insert(
            draw.randrange(len(arguments) + 1), draw.choice(("--nope", "--help", "-x", "--"))
        )
    if words == ("deploy", "demo"):  # would start servers; what it does is tested elsewhere
        arguments.append("--nope")
    is_long = words[-1] in LONG or any(map(is_large, arguments))
    if words[-1] == "run":
        arguments += odd_recipes.overrides({"data": "synthetic", **odd_recipes.SMALL})
    if "--workers" not in arguments and any(p.name == "workers" for p in command.params):
        arguments += ["--workers", "1"]
    return Odd("command", arguments, is_long)


def _parameter(parameter: Any, draw: Random) -> list[str]:
    is_argument = parameter.param_type_name == "argument"
    chance = 0.97 if parameter.required else 0.35
    if draw.random() > chance:
        return []
    if is_argument:
        return [
            _value(parameter, draw)
            for _ in range(draw.choice((1, 1, 2)) if parameter.nargs == -1 else 1)
        ]
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
    "names": (
        "set",
        "method",
        "model",
        "fedavg",
        "unet",
        "method.py:Thing",
        "exits.py:X",
    ),
    "image": ("set/images/case0.png", "set", "thing.py"),
    "mask": ("set/masks/case0.png", "set", "thing.py"),
    "setting": ("skin-ns", "breast-ne"),
    "sites": ("2", "A,B", "A,A", "a b"),
    "option": ("mode=faithful", "points=0", "clip=true", "degree=abc", "x", "mu=1", "points=1e3"),
    "noise": ("contour", "levelset", "flip", "thing.py:Thing", "thing.py:fails"),
    "window": ("0,255", "255,0", "a,b", "nan,inf"),
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
        return draw.choice(
            (
                OUT,
                OUT,
                f"{OUT}/a/b",
                "",
                "/dev/null",
                "/dev/full",
                "/proc/nowhere/x",
                "y" * 300,
                "ä\n",
            )
        )
    if name in PLAUSIBLE and draw.random() < 0.6:
        return draw.choice(PLAUSIBLE[name])
    kind = parameter.type
    if hasattr(kind, "choices") and draw.random() < 0.6:
        return str(draw.choice(list(kind.choices)))
    if draw.random() < 0.4 and type(kind).__name__ in ("IntParamType", "IntRange", "FloatRange"):
        return draw.choice(("1", "2", "16", "32"))
    return text(draw)


Maker = Callable[[Path, Path, Random], Odd]
