"""Helpers for tests with a consortium of real processes."""

from feda3i.deploy.control import Control
from feda3i.engine.events import read_events
from feda3i.recipe import validate
from waiting import wait_until


def names(count):
    return [f"site-{k + 1:02d}" for k in range(count)]


def small(recipe, **engine):
    values = recipe.to_dict()
    values["engine"].update(engine)
    values["data"].update(cases=4, test=4, size=32)
    values["model"]["width"] = 4
    return validate(values)


def events_of(consortium, run_name, kind):
    path = consortium.runs / run_name / "events.jsonl"
    return list(read_events(path, kind)) if path.exists() else []


def rounds_of(consortium, run_name):
    return events_of(consortium, run_name, "round")


def wait_for_event(consortium, run, run_name, kind, count=1):
    """Wait until a run's log has so many events of a kind; a run that has ended will not."""
    with Control(consortium.server) as control:

        def is_so():
            status = control.status(run)
            if len(events_of(consortium, run_name, kind)) >= count:
                return True
            assert not status.is_finished, f"{status.text}: {status.details}"
            return False

        wait_until(is_so, lambda: consortium.log("server").read_text()[-3000:], pause=0.2)


def wait_for_round(consortium, run, run_name, number):
    wait_for_event(consortium, run, run_name, "round", number)


def wait_for_nodes(consortium, sites):
    with Control(consortium.server) as control:
        wait_until(lambda: all(control.nodes()[site] == "online" for site in sites), pause=0.2)
