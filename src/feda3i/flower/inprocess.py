"""A Flower grid in one process: nodes are function calls, and every message is a copy.

For tests, and to try settings of a consortium before any machine is set up. Faults can be put in
between: ``tamper`` sees every reply before the server does, ``online`` says who is connected.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, cast

from flwr.app import Context, Message, Metadata, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid

Tamper = Callable[[str, Message], Message | None]


@dataclass(frozen=True)
class Node:
    """What the SuperLink knows of a node."""

    node_id: int
    name: str
    last_activated_at: str


class InProcessGrid(Grid):
    """Nodes of one ``ClientApp``, called when the server asks for their replies.

    ``nodes`` are their names with their node config, ``run_config`` the settings that all of them
    see. ``tamper`` is called with a node's name and its reply; it returns what the server gets, or
    ``None`` for a reply that has not come yet.
    """

    def __init__(
        self,
        app: ClientApp,
        nodes: Mapping[str, Mapping[str, Any]],
        run_config: Mapping[str, Any],
        tamper: Tamper | None = None,
    ) -> None:
        self.app = app
        self.nodes = {100 + number: name for number, name in enumerate(sorted(nodes))}
        self.node_config = dict(nodes)
        self.run_config = dict(run_config)
        self.tamper = tamper or (lambda _, reply: reply)
        self.online: set[str] = set(nodes)
        self.activated: dict[str, str] = dict.fromkeys(nodes, "1")
        self._sent: list[Message] = []
        self._answered: dict[str, Message] = {}

    def set_run(self, run: Any) -> None:
        """Do nothing: there is one run."""

    @property
    def run(self) -> Any:
        """There is no run object."""
        return None

    def message(
        self,
        content: RecordDict,
        dst_node_id: int,
        message_type: str,
        *,
        ttl: float,
        message_id: str = "",
    ) -> Message:
        """Make a message, which Flower's own constructor does in a process of Flower only."""
        about = Metadata(
            run_id=1,
            message_id=message_id,
            src_node_id=1,
            dst_node_id=dst_node_id,
            reply_to_message_id="",
            group_id="",
            created_at=time.time(),
            ttl=ttl,
            message_type=message_type,
        )
        return cast(Message, cast(Any, Message)(content=content, metadata=about))

    def create_message(
        self,
        content: RecordDict,
        message_type: str,
        dst_node_id: int,
        group_id: str,
        ttl: float | None = None,
    ) -> Message:
        """Make a message, the deprecated way."""
        return self.message(content, dst_node_id, message_type, ttl=ttl or 3600.0)

    def get_node_ids(self) -> list[int]:
        """Return the nodes that are online."""
        return [number for number, name in self.nodes.items() if name in self.online]

    def get_nodes(self) -> Any:
        """Return what the SuperLink knows of the nodes that are online."""
        online = {i: self.nodes[i] for i in self.get_node_ids()}
        return [Node(i, name, self.activated[name]) for i, name in online.items()]

    def push_messages(self, messages: Iterable[Message]) -> list[str]:
        """Take messages; their nodes get copies."""
        before = len(self._sent)
        for message in messages:
            to, content = message.metadata, copy.deepcopy(message.content)
            number = str(len(self._sent))
            self._sent.append(
                self.message(
                    content, to.dst_node_id, to.message_type, ttl=to.ttl, message_id=number
                )
            )
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
                self._answered[identifier] = self._ask(name, message)
            reply = self.tamper(name, copy.deepcopy(self._answered[identifier]))
            if reply is not None:
                del self._answered[identifier]
                replies.append(reply)
        return replies

    def _ask(self, name: str, message: Message) -> Message:
        context = Context(
            run_id=message.metadata.run_id,
            node_id=message.metadata.dst_node_id,
            node_config=dict(self.node_config[name]),
            state=RecordDict(),
            run_config=dict(self.run_config),
        )
        return self.app(message, context)

    def send_and_receive(
        self, messages: Iterable[Message], *, timeout: float | None = None
    ) -> list[Message]:
        """Push messages and wait for the replies."""
        ids = set(self.push_messages(messages))
        replies: list[Message] = []
        end = time.monotonic() + (60.0 if timeout is None else timeout)
        while ids and time.monotonic() < end:
            got = self.pull_messages(ids)
            replies += got
            ids -= {reply.metadata.reply_to_message_id for reply in got}
        return replies
