"""A hostile node: it runs in the place of a site's guard and spoils what the site sends.

A site's machine is its own, so nothing stops it from running this. ``FEDA3I_ATTACK`` names a JSON
file: kind of message -> names of attacks, one after the other; when they are used up, the site is
honest. How many have been used is kept beside it, because every message is a process of its own.
"""

import json
import os
import sys
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from flwr.app import Error, Message

import attacks
from feda3i.flower import client_app, guard

honest = client_app.answer


def spoilers():
    """Return every attack by name."""
    found = {name: spoil for name, (spoil, _) in (attacks.FORGED | attacks.UNREADABLE).items()}
    for number, changes in enumerate(attacks.HELLOS):
        found[f"hello {number}"] = partial(attacks.forge, **changes)
    found["40 cases"] = partial(attacks.forge, cases=40)
    found["noise"], found["limit"] = attacks.with_noise, attacks.at_the_limit
    return found | {"survey": attacks.with_survey}


def hostile(message, context):
    """Answer, then spoil the answer."""
    reply = honest(message, context)
    plan = Path(os.environ["FEDA3I_ATTACK"])
    kind = reply.content["header"]["kind"]
    names = json.loads(plan.read_text("utf-8")).get(kind, [])
    used = plan.with_name(f"{plan.name}.{kind}")
    count = int(used.read_text("utf-8")) if used.exists() else 0
    used.write_text(str(count + 1))
    if count >= len(names):
        return reply
    spoiled = spoilers()[names[count]](reply)
    if spoiled.has_error():  # half a character cannot travel in Flower's own texts
        reason = str(spoiled.error.reason).encode("utf-8", "ignore").decode()
        return Message(Error(spoiled.error.code, reason), reply_to=message)
    return spoiled


if __name__ == "__main__":
    client_app.answer = hostile
    guard.main()
