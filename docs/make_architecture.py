"""List who imports whom in docs/architecture.md, and say which import goes the wrong way.

    python docs/make_architecture.py    # write the page again; exit code 1: a wrong import

An import counts wherever it stands: at the top, inside a function, for type checkers only, or as a
name in a registry (``"feda3i.methods.fedavg:METHOD"``).
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

PAGE = Path(__file__).with_name("architecture.md")
SOURCE = Path(__file__).parents[1] / "src" / "feda3i"
START, END = "<!-- packages: python docs/make_architecture.py -->", "<!-- end of packages -->"

# Lowest layer first: each may import only those before it.
LAYERS = {
    "errors": "Errors for users: what was expected, what was found and what to do.",
    "seeding": "Random generators made of (seed, scope...).",
    "values": "Plain values from recipes, files and command lines, checked first.",
    "registry": "Find methods, data sets, noise models and networks by name.",
    "failures": "One message and an exit code for whatever goes wrong.",
    "files": "Atomic writes of bytes, pictures, arrays, tables and figures.",
    "ram": "Is there enough memory?",
    "pool": "Spread work over processes or threads, in order.",
    "geometry": "Masks as shapes: signed distance, contours, polygons, components.",
    "losses": "Losses on logits.",
    "metrics": "Dice, IoU, HD95, ASSD.",
    "core": "What a method may touch: messages, cases, layout, sums of networks, format, "
    "predictor, training, its site and its server.",
    "models": "Networks by name, and their stages.",
    "quality": "How well each site draws: survey, groups, offsets, weights. Arrays in, arrays out.",
    "pieces": "FedA3I for a loop of your own: survey, stages, weights, average.",
    "noise": "Annotation noise. Arrays in, arrays out; no files.",
    "methods": "One small file per method; FedAvg is the default behaviour.",
    "extend": "What plug-ins import.",
    "synthetic": "Synthetic skin and breast cases.",
    "reading": "From files of any layout to cases: find pairs, decode, resize, say what is wrong.",
    "data": "Data sets by name; folders as a federation: partitions, cache, and the check.",
    "recipe": "One TOML file says everything about a run; overrides, names, trust.",
    "simulation": "From a recipe to a federation: annotators, noisy masks, reference views.",
    "engine": "Jobs, stations, the round loop, run folders, event log, console, tracking.",
    "export": "A model in formats that other programs read, with a model card.",
    "testing": "What every method promises, as checks that anyone can run.",
    "report": "Pages about runs, from their folders.",
    "flower": "The network engine: the same loop and stations, with Flower between them; to set "
    "up and operate a consortium.",
    "audit": "The audit of annotation quality.",
    "bench": "Grids of runs, their statistics, tables and figures.",
    "commands": "The command line, one module per command.",
    "cli": "The entry point.",
    "__main__": "``python -m feda3i``.",
    "feda3i": "The public API, loaded when asked for.",
}


def modules() -> dict[str, Path]:
    """Return every module by its dotted name."""
    found = {}
    for file in sorted(SOURCE.rglob("*.py")):
        parts = ("feda3i", *file.relative_to(SOURCE).with_suffix("").parts)
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = file
    return found


def layer_of(module: str) -> str:
    """Return the package of a module, or the module itself at the top."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else "feda3i"


def imports(file: Path, known: dict[str, Path]) -> Iterator[str]:
    """Yield the modules of this package that a file names."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "feda3i":
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                yield inner if inner in known else str(node.module)
        elif isinstance(node, ast.Import):
            yield from (a.name for a in node.names if a.name.split(".")[0] == "feda3i")
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            named = re.fullmatch(r"(feda3i(?:\.\w+)+)(?::\w+)?", node.value)
            if named and named[1] in known:
                yield named[1]


def edges() -> dict[tuple[str, str], list[str]]:
    """Return who imports whom, layer by layer, with the modules that do."""
    known = modules()
    found: dict[tuple[str, str], list[str]] = {}
    for module, file in known.items():
        for target in imports(file, known):
            # "from feda3i import __version__" asks the package for its version only.
            if target != "feda3i" and layer_of(target) != layer_of(module):
                pair = layer_of(module), layer_of(target)
                found.setdefault(pair, []).append(f"{module} imports {target}")
    return found


def wrong() -> list[str]:
    """Return every import that goes up, and every layer that has no place in the list."""
    place = {layer: k for k, layer in enumerate(LAYERS)}
    lost = sorted({layer_of(module) for module in modules()} - set(place))
    bad = [f"'{layer}' is not in LAYERS of {Path(__file__).name}" for layer in lost]
    for (user, used), lines in sorted(edges().items()):
        if user in place and used in place and place[used] > place[user]:
            bad += [
                f"{line}: '{user}' may not import '{used}', which comes later" for line in lines
            ]
    return bad


def table() -> str:
    """Return the generated part of the page: a row per package or module."""
    known, pairs = modules(), edges()
    lines = [START, "", "| package or module | what is in it | imports |", "|---|---|---|"]
    for layer, about in LAYERS.items():
        if layer in {layer_of(module) for module in known}:
            uses = [used for used in LAYERS if (layer, used) in pairs]
            lines.append(f"| `{layer}` | {about} | {', '.join(uses)} |")
    return "\n".join([*lines, "", END])


def page(text: str) -> str:
    """Return the page with its generated part made again."""
    return text[: text.index(START)] + table() + text[text.index(END) + len(END) :]


def main() -> None:
    """Write the page, and say what is wrong."""
    bad = wrong()
    for line in bad:
        print(line)
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
