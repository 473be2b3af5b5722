"""Helpers for tests with a consortium of real processes."""

import signal

from feda3i.engine.events import read_events
from feda3i.flower import deploy_control as control
from feda3i.flower import deploy_demo
from feda3i.flower.deploy_folders import write_site
from feda3i.recipe import validate
from waiting import HANG, wait_until


class Consortium(deploy_demo.Consortium):
    """A consortium whose sites can stop, and to which a site without a registered key can come."""

    def stop(self, name):
        """Ask a site to stop, as an engineer there would, and wait until it has."""
        self._signal(name, signal.SIGTERM)
        self._processes[name].wait(HANG)
        self.kill(name)

    def add(self, site):
        """Write the folder of a site whose key the server does not know."""
        write_site(self.folder, self.settings, site)
        (self.server / "keys" / f"{site}.pub").unlink()
        self._settle(site)


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

    def is_so():
        if len(events_of(consortium, run_name, kind)) >= count:
            return True
        state, details = control.state_of(consortium.server, run)
        assert not state.startswith("finished"), f"{state}: {details}"
        return False

    wait_until(is_so, lambda: consortium.log("server").read_text("utf-8")[-3000:], pause=0.5)


def wait_for_round(consortium, run, run_name, number):
    wait_for_event(consortium, run, run_name, "round", number)


def wait_for_nodes(consortium, sites):
    def is_so():
        return statuses(consortium).count("online") >= len(sites)

    wait_until(is_so, pause=0.5)


def statuses(consortium):
    """Return the status of every registered node."""
    listed = control.flwr(consortium.server, "supernode", "list", control.SUPERLINK)
    return [node["status"] for node in listed["nodes"]]


def finish(consortium, run, name):
    """Wait for the end of a run; return its rounds."""
    list(control.follow(consortium.server, run, consortium.runs / name))
    return rounds_of(consortium, name)
