"""Four rounds of a method on tiny cases, as the few numbers that would show a change of behaviour.

Write the row of a method (or of all): python tests/golden/golden_run.py [NAME ...]
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from feda3i import contract
from feda3i.methods import REGISTRY
from short import SHORT

EXPECTED = Path(__file__).with_name("expected.json")


def row_of(name: str) -> dict[str, object]:
    """Return losses by round, the last test Dice, and how far the model is from zero."""
    subject = contract.Subject(name, SHORT.get(name, {}))
    outcome = contract.outcome_of(subject.recipe(rounds=4), contract.tiny_federation())
    rounds = [event for event in outcome.events if event["event"] == "round"]
    return {
        "loss": [round(event["loss"], 6) for event in rounds],
        "dice": round(rounds[-1]["dice"], 6),
        "norm": round(float(np.linalg.norm(outcome.values.astype(np.float64))), 6),
    }


if __name__ == "__main__":
    rows = json.loads(EXPECTED.read_text()) if EXPECTED.exists() else {}
    for chosen in sys.argv[1:] or REGISTRY.names():
        rows[chosen] = row_of(chosen)
    lines = [f"  {json.dumps(name)}: {json.dumps(rows[name])}" for name in sorted(rows)]
    EXPECTED.write_text("{\n" + ",\n".join(lines) + "\n}\n")
