"""A Flower grid in one process: nodes are function calls, and every message is a copy."""

import copy
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from flwr.app import Context, Message, Metadata, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid


class Node(NamedTuple):
    """What the SuperLink knows of a node."""

    node_id: int
    name: str
    last_activated_at: str


class InProcessGrid(Grid):
    """Nodes of one ``ClientApp``, called when the server asks for their replies.

    ``nodes`` are their names with their node config, ``run_config`` the settings that all of them
    see. ``online`` says who is connected. ``tamper`` gets a node's name and its reply, and returns
    what the server gets: ``None`` for a reply that has not come yet.
    """

    run = None

    def __init__(
        self,
        app: ClientApp,
        nodes: Mapping[str, Mapping[str, Any]],
        run_config: Mapping[str, Any],
        tamper: Callable[[str, Message], Message | None] | None = None,
    ) -> None:
        self.app, self.run_config = app, dict(run_config)
        self.nodes = {100 + number: name for number, name in enumerate(sorted(nodes))}
        self.node_config = dict(nodes)
        self.tamper = tamper or (lambda _, reply: reply)
        self.online: set[str] = set(nodes)
        self.activated: dict[str, str] = dict.fromkeys(nodes, "1")
        self._sent: list[Message] = []
        self._answered: dict[str, Message] = {}

    def set_run(self, run: Any) -> None:
        """Do nothing: there is one run."""

    def create_message(self, *args: Any) -> Message:
        raise NotImplementedError  # Flower's old way

    def message(
        self, content: RecordDict, node: int, kind: str, *, ttl: float, number: str = ""
    ) -> Message:
        """Make a message, which Flower's own constructor does in a process of Flower only."""
        about = Metadata(1, number, 1, node, "", "", time.time(), ttl, kind)
        return Message(content=content, metadata=about)

    def get_node_ids(self) -> list[int]:
        return [number for number, name in self.nodes.items() if name in self.online]

    def get_nodes(self) -> list[Node]:
        names = [(number, self.nodes[number]) for number in self.get_node_ids()]
        return [Node(number, name, self.activated[name]) for number, name in names]

    def push_messages(self, messages: Iterable[Message]) -> list[str]:
        """Take messages; their nodes get copies."""
        before = len(self._sent)
        for number, message in enumerate(messages, start=before):
            to, content = message.metadata, copy.deepcopy(message.content)
            made = to.dst_node_id, to.message_type
            self._sent.append(self.message(content, *made, ttl=to.ttl, number=str(number)))
        return [str(number) for number in range(before, len(self._sent))]

    def pull_messages(self, message_ids: Iterable[str]) -> list[Message]:
        """Let the nodes answer and return their replies."""
        replies = []
        for identifier in list(message_ids):
            message = self._sent[int(identifier)]
            name = self.nodes[message.metadata.dst_node_id]
            if name not in self.online:
                continue
            if identifier not in self._answered:
                config = dict(self.node_config[name]), RecordDict(), dict(self.run_config)
                context = Context(1, message.metadata.dst_node_id, *config)
                self._answered[identifier] = self.app(message, context)
            reply = self.tamper(name, copy.deepcopy(self._answered[identifier]))
            if reply is not None:
                del self._answered[identifier]
                replies.append(reply)
        return replies

    def send_and_receive(
        self, messages: Iterable[Message], *, timeout: float | None = None
    ) -> list[Message]:
        return self.pull_messages(self.push_messages(messages))
