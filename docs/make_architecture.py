"""Draw who imports whom into docs/architecture.md, and say which import goes the wrong way.

    python docs/make_architecture.py            # write the page again
    python docs/make_architecture.py --check    # exit code 1: a wrong import, or an old page

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
START, END = "<!-- rooms: python docs/make_architecture.py -->", "<!-- end of rooms -->"

# From the ground up: a room may use those above it in this list, never those below.
ROOMS = {
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
    "noise": "Annotation noise. Arrays in, arrays out; no files.",
    "methods": "One small file per method; FedAvg is the default behaviour.",
    "synthetic": "Synthetic skin and breast cases.",
    "reading": "From files of any layout to cases: find pairs, decode, resize, say what is wrong.",
    "data": "Cases on disk as a federation: folders, partitions, cache, and the check of a folder.",
    "datasets": "Data sets by name, one file each.",
    "recipe": "One TOML file says everything about a run; overrides, names, trust.",
    "simulation": "From a recipe to a federation: annotators, noisy masks, reference views.",
    "engine": "Jobs, stations, the round loop, run folders, event log, console, tracking.",
    "export": "A model in formats that other programs read, with a model card.",
    "testing": "What every method promises, as checks that anyone can run.",
    "report": "Tables, plots and pages from run folders.",
    "flower": "The network engine: the same loop and stations, with Flower between them; to set "
    "up and operate a consortium.",
    "audit": "The annotation-quality audit.",
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


def room_of(module: str) -> str:
    """Return the room that a module stands in."""
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
    """Return who imports whom, room by room, with the modules that do."""
    known = modules()
    found: dict[tuple[str, str], list[str]] = {}
    for module, file in known.items():
        for target in imports(file, known):
            # "from feda3i import __version__" asks the package for its version only.
            if target != "feda3i" and room_of(target) != room_of(module):
                pair = room_of(module), room_of(target)
                found.setdefault(pair, []).append(f"{module} imports {target}")
    return found


def wrong() -> list[str]:
    """Return every import that goes up, and every room that has no place in the list."""
    place = {room: k for k, room in enumerate(ROOMS)}
    lost = sorted({room_of(module) for module in modules()} - set(place))
    bad = [f"room '{room}' is not in the list of {Path(__file__).name}" for room in lost]
    for (user, used), lines in sorted(edges().items()):
        if user in place and used in place and place[used] > place[user]:
            bad += [f"{line}: '{used}' is below '{user}' in the list of rooms" for line in lines]
    return bad


def rooms() -> str:
    """Return the generated part of the page: one paragraph per room, and the graph."""
    known, pairs = modules(), edges()
    lines = [START, "", "| room | what is in it | uses |", "|---|---|---|"]
    for room, about in ROOMS.items():
        if room in {room_of(module) for module in known}:
            uses = [used for used in ROOMS if (room, used) in pairs]
            lines.append(f"| `{room}` | {about} | {', '.join(uses)} |")
    packages = {room_of(module) for module in known if module.count(".") > 1}
    lines += ["", "Packages only (everything also uses the single modules):", "", "```mermaid"]
    lines.append("graph BT")
    for user, used in sorted(pairs):
        if user in packages and used in packages and not _is_implied(user, used, pairs):
            lines.append(f"    {user} --> {used}")
    return "\n".join([*lines, "```", "", END])


def _is_implied(user: str, used: str, pairs: dict[tuple[str, str], list[str]]) -> bool:
    """Return whether another room between the two already leads from one to the other."""
    return any(
        (user, middle) in pairs and (middle, used) in pairs
        for middle in ROOMS
        if middle not in (user, used)
    )


def page(text: str) -> str:
    """Return the page with its generated part made again."""
    return text[: text.index(START)] + rooms() + text[text.index(END) + len(END) :]


def main() -> None:
    """Write the page, or check it."""
    bad = wrong()
    for line in bad:
        print(line)
    old = PAGE.read_text(encoding="utf-8")
    if "--check" in sys.argv:
        is_old = page(old) != old
        if is_old:
            print(f"{PAGE.name} is old: run python docs/make_architecture.py")
        sys.exit(1 if bad or is_old else 0)
    PAGE.write_text(page(old), encoding="utf-8")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
