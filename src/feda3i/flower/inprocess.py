"""A Flower grid in one process: messages are really packed and unpacked, nodes are function calls.

For tests, and to try settings of a consortium before any machine is set up. Faults can be put in
between: ``tamper`` sees every reply before the server does, ``online`` says who is connected.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, cast

from flwr.app import Context, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.proto.node_pb2 import NodeInfo
from flwr.serverapp import Grid
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects
from flwr.supercore.inflatable.inflatable_utils import inflate_object_from_contents
from flwr.supercore.task_identity import TaskIdentity

Tamper = Callable[[str, Message], Message | None]


@contextmanager
def task_identity(run_id: int = 1) -> Iterator[None]:
    """Let messages be made outside a Flower process; the identity is a private class of flwr."""
    before = TaskIdentity._task_id, TaskIdentity._run_id, TaskIdentity._node_id
    TaskIdentity.task_id, TaskIdentity.run_id, TaskIdentity.node_id = 1, run_id, 1
    try:
        yield
    finally:
        TaskIdentity._task_id, TaskIdentity._run_id, TaskIdentity._node_id = before


class InProcessGrid(Grid):
    """Nodes of one ``ClientApp``, called when the server asks for their replies.

    Parameters
    ----------
    app
        The sites' app.
    nodes
        Name of a node -> its node config.
    run_config
        The settings of the run, as every node sees them.
    tamper
        Called with the node's name and its reply; returns what the server gets, or ``None`` for a
        reply that has not come yet.
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
        self.bytes = {"sent": 0, "received": 0}
        self._waiting: dict[str, Message] = {}
        self._answered: dict[str, tuple[Message, int]] = {}

    def set_run(self, run: Any) -> None:
        """Do nothing: there is one run."""

    @property
    def run(self) -> Any:
        """There is no run object."""
        return None

    def create_message(
        self,
        content: RecordDict,
        message_type: str,
        dst_node_id: int,
        group_id: str,
        ttl: float | None = None,
    ) -> Message:
        """Make a message, the deprecated way."""
        return Message(content, dst_node_id, message_type, ttl=ttl, group_id=group_id)

    def get_node_ids(self) -> list[int]:
        """Return the nodes that are online."""
        return [number for number, name in self.nodes.items() if name in self.online]

    def get_nodes(self) -> list[NodeInfo]:
        """Return what the SuperLink knows of the nodes that are online."""
        return [
            NodeInfo(node_id=i, name=self.nodes[i], last_activated_at=self.activated[self.nodes[i]])
            for i in self.get_node_ids()
        ]

    def push_messages(self, messages: Iterable[Message]) -> list[str]:
        """Take messages; they are packed here and unpacked at the node."""
        ids = []
        for message in messages:
            message.metadata.__dict__["_message_id"] = message.object_id
            self._waiting[message.object_id], size = through_bytes(message)
            self.bytes["sent"] += size
            ids.append(message.object_id)
        return ids

    def pull_messages(self, message_ids: Iterable[str]) -> list[Message]:
        """Let the nodes answer and return their replies."""
        replies = []
        for message_id in list(message_ids):
            message = self._waiting[message_id]
            name = self.nodes[message.metadata.dst_node_id]
            if name not in self.online:
                continue
            if message_id not in self._answered:
                self._answered[message_id] = through_bytes(self._ask(name, message))
            reply, size = self._answered[message_id]
            tampered = self.tamper(name, reply)
            if tampered is not None:
                del self._waiting[message_id], self._answered[message_id]
                self.bytes["received"] += size
                replies.append(tampered)
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


def through_bytes(message: Message) -> tuple[Message, int]:
    """Return a message after packing and unpacking it as Flower does, and its number of bytes."""
    identifier = message.object_id
    contents = {key: item.deflate() for key, item in get_all_nested_objects(message).items()}
    size = sum(len(data) for data in contents.values())
    copy = cast(Message, inflate_object_from_contents(identifier, contents))
    copy.metadata.__dict__["_message_id"] = identifier
    return copy, size
