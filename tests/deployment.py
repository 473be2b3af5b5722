"""Helpers for tests with a consortium of real processes."""

import signal

from feda3i.engine.events import read_events
from feda3i.errors import RunError
from feda3i.flower import deploy_control as control
from feda3i.flower import deploy_demo
from feda3i.flower.deploy_folders import write_site
from feda3i.recipe import validate
from waiting import HANG, wait_until


class Consortium(deploy_demo.Consortium):
    """A consortium whose sites can stop, and to which a site without a registered key can come."""

    def start(self, sites, **environments):
        """Start the server and sites, some in an environment of their own, and wait for them."""
        self.start_server()
        for site in sites:
            self.start_site(site, environments.get(site))
        wait_until(lambda: self.statuses().count("online") >= len(sites), pause=0.5)

    def restart_server(self):
        """Kill all of the server, start it again and wait until it answers."""
        self.kill("server")
        self.start_server()

        def answers():
            try:
                return bool(self.statuses())
            except RunError:
                return False

        wait_until(answers, pause=0.5)

    def statuses(self):
        """Return the status of every registered node."""
        listed = control.flwr(self.server, "supernode", "list", control.SUPERLINK)
        return [node["status"] for node in listed["nodes"]]

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

    def said(self, name):
        return self.log(name).read_text("utf-8")

    def events(self, run, kind="round"):
        path = self.runs / run / "events.jsonl"
        return list(read_events(path, kind)) if path.exists() else []

    def wait_for(self, number, run, count, kind="round"):
        """Wait until a run's log has so many events of a kind; a run that has ended will not."""

        def is_so():
            if len(self.events(run, kind)) >= count:
                return True
            state, details = control.state_of(self.server, number)
            assert not state.startswith("finished"), f"{state}: {details}"
            return False

        wait_until(is_so, lambda: self.said("server")[-3000:], pause=0.5)

    def finish(self, number, run):
        """Wait for the end of a run; return its rounds."""
        list(control.follow(self.server, number, self.runs / run))
        return self.events(run)


def small(sites, method="fedavg", rounds=4, **engine):
    """Return a recipe whose rounds cost little but the messages."""
    recipe = deploy_demo.recipe_of(sites, method, rounds)
    values = recipe.to_dict()
    values["engine"].update(engine)
    values["data"].update(cases=4, test=4, size=32)
    values["model"]["width"] = 4
    return validate(values)
