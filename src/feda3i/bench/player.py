"""A process that executes the runs of a bench one after the other.

It reads orders as lines of JSON and answers with lines of JSON: one per round, one at the end of a
run. It lives for the whole bench, so that libraries and cases are loaded once, not once per run;
when the bench dies, however it dies, its pipe closes and the process ends with it.
"""

from __future__ import annotations

import json
import os
import queue
import sys
import threading
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

from feda3i.engine.console import Listener
from feda3i.errors import FedA3IError, RunError, summary

KEPT = 2
"""Federations in memory: runs of one setting come one after the other."""


def main() -> None:
    """Answer orders until the pipe closes."""
    # Whatever prints must not write between our lines.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8", buffering=1)
    os.dup2(2, 1)
    orders: queue.Queue[dict[str, Any]] = queue.Queue()
    threading.Thread(target=_read, args=(sys.stdin, orders), daemon=True).start()
    player = Player(answers)
    while True:
        player.play(orders.get())


def _read(pipe: IO[str], orders: queue.Queue[dict[str, Any]]) -> None:
    """Pass orders on; the end of the pipe is the end of this process, in the middle of a round."""
    for line in pipe:
        orders.put(json.loads(line))
    os._exit(0)


class Player:
    """Play runs, and keep the cases of the last settings."""

    def __init__(self, answers: IO[str]) -> None:
        self._answers = answers
        self._federations: dict[str, Any] = {}

    def play(self, order: Mapping[str, Any]) -> None:
        """Finish one run and write its result; a failure is reported, not raised."""
        try:
            self._play(order)
        except FedA3IError as error:
            self.tell(failed=str(error))
        except Exception as error:  # one run must not end the others
            traceback.print_exc(file=sys.stderr)
            self.tell(failed=f"this is a bug in feda3i: {summary(error)}")

    def _play(self, order: Mapping[str, Any]) -> None:
        from feda3i.bench.branching import run_or_branch
        from feda3i.bench.result import result_of
        from feda3i.recipe import validate

        recipe, path = validate(order["recipe"]), Path(order["path"])
        self.tell(doing="reading the cases")
        federation = self._federation(recipe)
        _check_test(federation.test.digest(), order)
        branches, wanted = Path(order["branches"]), order["wanted"]
        run_or_branch(recipe, path, federation, branches, wanted, Teller(self))
        result = result_of(path, federation)
        result.write(Path(order["result"]))
        self.tell(done=result.last(), seconds=result.machine["seconds_per_round"])

    def _federation(self, recipe: Any) -> Any:
        from feda3i.simulation.federation import federation_of

        values = recipe.to_dict()
        key = json.dumps([values["data"], values["noise"], *_seeds(values)], sort_keys=True)
        found = self._federations.pop(key, None) or federation_of(recipe)
        self._federations[key] = found  # as the last one
        for old in list(self._federations)[:-KEPT]:
            del self._federations[old]
        return found

    def tell(self, **facts: Any) -> None:
        """Answer with a line."""
        self._answers.write(json.dumps(facts) + "\n")


def _check_test(found: str, order: Mapping[str, Any]) -> None:
    """Raise ``RunError`` if results that are there were scored on other cases."""
    expected = order.get("test_sha256")
    if expected not in (None, found):
        raise RunError(
            f"the results in '{Path(order['result']).parent}' were scored on other test cases "
            f"(SHA-256 {expected[:12]}) than these ({found[:12]}); give the same data, or another "
            f"folder with --results"
        )


def _seeds(values: Mapping[str, Any]) -> list[int]:
    """Return the run's seed where data or noise are drawn from it."""
    is_fixed = "seed" in values["data"] and (
        values["noise"]["name"] == "none" or "seed" in values["noise"]
    )
    return [] if is_fixed else [int(values["seed"])]


class Teller(Listener):
    """Report a run's rounds over the pipe."""

    def __init__(self, player: Player) -> None:
        self._player = player

    def begin(self, title: str, rounds: int, done: int) -> None:
        """Report the round that the run stands at."""
        self._player.tell(round=done)

    def round(self, event: dict[str, Any]) -> None:
        """Report a round."""
        self._player.tell(**{key: event.get(key) for key in ("round", "dice", "seconds")})


if __name__ == "__main__":
    main()
