"""Talk to a SuperLink's control interface from the server itself: register keys, start runs.

``python -m feda3i.deploy.control admit KEYS`` is what the server's start script calls. A site's
name is the name of its key file; it is the server's word for that site, whatever the site says.
"""

from __future__ import annotations

import ssl
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from feda3i.deploy.credentials import RENEW, SOON, days_left
from feda3i.engine.events import Event, read_events
from feda3i.errors import RunError


@dataclass(frozen=True)
class Status:
    """State of a Flower run: ``finished:completed`` is the only good end."""

    text: str
    details: str
    bytes_sent: int
    bytes_received: int

    @property
    def is_finished(self) -> bool:
        """Return whether the run is over, for good or bad."""
        return self.text.startswith("finished")

    @property
    def is_completed(self) -> bool:
        """Return whether the run came to its end."""
        return self.text == "finished:completed"


class Control:
    """A connection to the control interface, which listens on the server's loopback address only.

    The server's folder tells the port (``server.env``) and whom to trust (``ca.crt``).
    """

    def __init__(self, server: Path) -> None:
        from flwr.supercore.control import ControlHttpClient
        from flwr.supercore.interceptors import RuntimeVersionHttpInterceptor

        from feda3i.flower.server_folder import read_env

        self.address = f"127.0.0.1:{read_env(server / 'server.env')['FEDA3I_PORT']}"
        self._client = ControlHttpClient.from_server_address(
            self.address,
            False,
            (server / "ca.crt").read_bytes(),
            [RuntimeVersionHttpInterceptor(component_name="flwr CLI")],
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def wait(self, patience: float = 600.0) -> None:
        """Wait until the SuperLink answers."""
        end = time.monotonic() + patience
        while True:
            try:
                self.nodes()
            except RunError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.3)
            else:
                return

    def nodes(self) -> dict[str, str]:
        """Return the state of every registered node by name: registered, online, offline."""
        return {node.name: node.status for node in self._registered()}

    def _registered(self) -> list[Any]:
        """Return the nodes that are let in; those with a former key stay in Flower's books."""
        from flwr.proto.control_pb2 import ListNodesRequest

        answer = self._ask(self._client.ListNodes, ListNodesRequest())
        return [node for node in answer.nodes_info if node.status != "unregistered"]

    def admit(self, keys: Path) -> dict[str, str]:
        """Let in the public keys of a folder and nobody else; return what that changed, by name.

        A key that is not in the folder any more is turned away, and at once: a node that is
        connected with it is disconnected.
        """
        from flwr.cli.supernode.register import try_load_public_key
        from flwr.proto.control_pb2 import RegisterNodeRequest, UnregisterNodeRequest

        wanted = {path.stem: try_load_public_key(path) for path in sorted(keys.glob("*.pub"))}
        done: dict[str, str] = {}
        for node in self._registered():
            if wanted.get(node.name) == node.public_key:
                del wanted[node.name]  # it is in already
            else:
                self._ask(self._client.UnregisterNode, UnregisterNodeRequest(node_id=node.node_id))
                done[node.name] = "turned away"
        for name, key in wanted.items():
            try:
                self._ask(self._client.RegisterNode, RegisterNodeRequest(public_key=key, name=name))
            except RunError as error:
                raise RunError(
                    f"the key of '{name}' is not accepted ({error}). A key that was turned away "
                    f"once cannot come back: make a new one at the site (feda3i deploy rotate)"
                ) from None
            done[name] = "new key" if name in done else "let in"
        return done

    def running(self) -> list[int]:
        """Return Flower's numbers of the runs that are under way or about to be."""
        from flwr.proto.control_pb2 import ListRunsRequest

        answer = self._ask(self._client.ListRuns, ListRunsRequest())
        return [
            int(number)
            for number, found in answer.run_dict.items()
            if found.status.status != "finished"
        ]

    def start(self, app: Path) -> int:
        """Start a run of an app folder and return Flower's number of the run."""
        import hashlib

        from flwr.cli.build import build_fab_from_disk
        from flwr.common.serde import fab_to_proto
        from flwr.proto.control_pb2 import StartRunRequest
        from flwr.supercore.fab import Fab

        data = build_fab_from_disk(app)
        fab = fab_to_proto(Fab(hashlib.sha256(data).hexdigest(), data, {}))
        answer = self._ask(self._client.StartRun, StartRunRequest(fab=fab))
        return int(answer.run_id)

    def status(self, run: int) -> Status:
        """Return the state of a run."""
        from flwr.proto.control_pb2 import ListRunsRequest

        answer = self._ask(self._client.ListRuns, ListRunsRequest(run_id=run))
        found = answer.run_dict[run]
        text = ":".join(part for part in (found.status.status, found.status.sub_status) if part)
        return Status(text, found.status.details, found.bytes_sent, found.bytes_recv)

    def follow(self, run: int, folder: Path, pause: float = 2.0) -> Iterator[Event]:
        """Yield the finished rounds of a run until its end; raise ``RunError`` at a bad one."""
        shown = 0
        while True:
            status = self.status(run)
            events = folder / "events.jsonl"
            rounds = list(read_events(events, "round")) if events.exists() else []
            yield from rounds[shown:]
            shown = len(rounds)
            if status.is_completed:
                return
            if status.is_finished:
                raise RunError(f"the run ended as {status.text}: {status.details}")
            time.sleep(pause)

    def _ask(self, question: Callable[[Any], Any], request: Any) -> Any:
        import httpx

        try:
            return question(request)
        except httpx.HTTPStatusError as error:
            raise RunError(f"the SuperLink refused: {error.response.text[:500]}") from None
        except (httpx.HTTPError, ssl.SSLError) as error:
            if "certificate has expired" in str(error):
                raise RunError(f"the server's certificate has expired; {RENEW}") from None
            raise RunError(f"no SuperLink answers at {self.address}: {error}") from None


def round_line(event: Event) -> str:
    """Return a finished round as one line."""
    dice = f"  dice {event['dice']:.4f}" if event.get("dice") is not None else ""
    missing = "".join(f"  {site}: {why}" for site, why in event["missing"].items())
    sites = f"sites {event['answered']}/{event['asked']}"
    return f"round  {event['round']}  {sites}  loss {event['loss']:.4f}{dice}{missing}"


def main(arguments: list[str]) -> None:
    """Let in the keys of a folder at the server in the working directory."""
    left = days_left(Path("server.crt"))
    if left < 0:
        sys.exit(f"feda3i: the server's certificate has expired; {RENEW}")
    if left < SOON:
        print(f"feda3i: the server's certificate expires in {left:.0f} days; {RENEW}", flush=True)
    with Control(Path.cwd()) as control:
        control.wait()
        for name, what in control.admit(Path(arguments[1])).items():
            print(f"site {name}: {what}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
