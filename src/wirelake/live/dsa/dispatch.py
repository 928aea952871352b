"""What a broker does with a request: finds where it goes, checks the permission, and answers, merges or forwards it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...codec.content import read_msgpack, write_msgpack
from ...errors import BadValue
from ...protocols import dsa as p
from ...protocols.dsa import Headers
from .forwards import Check, Forward
from .lists import Lister
from .local_calls import Answer, LocalCall, Run, read_set
from .paths import is_within
from .peers import Peer
from .permissions import CONFIG, LEVELS, LIST, NONE, READ, WRITE, capped
from .queues import PERSISTENT
from .routes import NOT_SUPPORTED, NoRoute, Route
from .subscribers import Subscriber
from .system_nodes import checked
from .tree import Node
from .wire import Received

if TYPE_CHECKING:
    from .server import DsaBroker

CLOSED, DISCONNECTED, DENIED, INVALID_PARAMETER, BUSY = 0x20, 0x2E, 0x40, 0x45, 0x48
GATES = {p.LIST: LIST, p.PREFLIGHT: LIST, p.SUB: READ, p.INVOKE: LIST, p.SET: WRITE}
"""What the broker demands for each method, before the node does."""
SYSTEM = "sys"
DSID = b"$$dsid"


class Dispatch:
    """Handles the requests of all peers."""

    def __init__(self, broker: DsaBroker) -> None:
        self._broker = broker
        self._desk = broker.desk
        self._routes = broker.routes
        self._tree = broker.tree

    def request(self, peer: Peer, message: Received) -> None:
        method, headers = message.method, message.headers
        is_subscribe = method == p.SUB
        stream = peer.streams.get((message.request_id, is_subscribe))
        if stream is not None:
            if self._goes_on(stream, message):
                stream.renew(message)
                return
            stream.end()
        if (headers.page_id or 0) > 0:
            self._desk.counts["pages_ignored"] += 1
            return
        if len(peer.streams) >= self._desk.options.max_streams:
            self._refuse(peer, message, BUSY)
            return
        try:
            route, level = self._find(peer, headers)
        except NoRoute as error:
            self._refuse(peer, message, error.status)
            return
        if level < GATES[method] or not self._may_show(peer, route, headers):
            self._refuse(peer, message, DENIED)
        elif route.peer is not None:
            self._to_peer(peer, message, route, route.peer, level)
        else:
            assert route.node is not None
            self._to_node(peer, message, route.node, level)

    def _goes_on(self, stream: Any, message: Received) -> bool:
        """Whether a request belongs to the stream of its id, rather than to a new one."""
        match stream:
            case Subscriber():
                return bool(stream.path == (message.headers.target_path or ""))
            case Lister():
                return False
        return True

    def _refuse(self, peer: Peer, message: Received, status: int) -> None:
        self._desk.counts["requests_refused"] += 1
        peer.reply(message.method + 0x80, message.request_id, status)

    def _find(self, peer: Peer, headers: Headers) -> tuple[Route, int]:
        """Return where a request goes and what the peer may do there. Those who may not even list hear of no node."""
        target = headers.target_path or ""
        try:
            route = self._routes.find(target, headers.alias_count or 0)
        except NoRoute as error:
            if error.status == NOT_SUPPORTED and self.level(peer, target.removeprefix("/")) < LIST:
                raise NoRoute(DENIED) from None
            raise
        level = min(self.level(peer, hop) for hop in route.hops)
        return route, capped(level, headers.max_permission)

    def level(self, peer: Peer, path: str) -> int:
        """Return what a peer may do at a path. Below ``sys`` that is everything or nothing."""
        if peer.is_trusted:
            return CONFIG
        if peer.is_quarantined:
            return NONE
        level = self._broker.roles.level(peer.client.role, path)
        return NONE if level < CONFIG and is_within(path, SYSTEM) else level

    def _may_show(self, peer: Peer, route: Route, headers: Headers) -> bool:
        """A token that we cannot read may only go to a peer that is known to be able to."""
        if headers.permission_token is None:
            return True
        return route.peer is not None and self._takes_preflight(route.peer)

    def _takes_preflight(self, responder: Peer) -> bool:
        return responder.path in self._desk.options.preflight

    # --- to peers

    def _to_peer(self, peer: Peer, message: Received, route: Route, responder: Peer, level: int) -> None:
        method, headers = message.method, message.headers
        if method in (p.SUB, p.LIST) and headers.permission_token is not None:
            self._check_first(peer, message, route, responder, level)
        elif method == p.SUB:
            self._subscribe(peer, message, responder, route.rest)
        elif method == p.LIST:
            self._list(peer, message, responder, route.rest, level)
        elif method == p.PREFLIGHT and not self._takes_preflight(responder):
            peer.reply(p.PREFLIGHT_R, message.request_id, CLOSED)
        elif not responder.is_serving:
            peer.reply(method + 0x80, message.request_id, DISCONNECTED)
        else:
            forward = Forward(
                peer, message.request_id, responder, method, route.rest, level, is_priority=headers.priority
            )
            peer.open_stream(message.request_id, forward)
            forward.begin(message, route.aliases)

    def _subscribe(self, peer: Peer, message: Received, responder: Peer, path: str) -> None:
        subscriber = self._subscriber(peer, message)
        if subscriber is not None:
            responder.values_of(path).add(subscriber)

    def _subscriber(self, peer: Peer, message: Received) -> Subscriber | None:
        """Return a new subscriber; None if there was one that waited, or the wish makes no sense."""
        headers, request_id = message.headers, message.request_id
        if (headers.qos or 0) > PERSISTENT:
            peer.reply(p.SUB_R, request_id, INVALID_PARAMETER)
            return None
        wish, path = peer.wish_of(headers), headers.target_path or ""
        waiting = peer.waiting.get(path) if wish.qos > 1 else None
        if waiting:
            subscriber = waiting.pop(0)
            if not waiting:
                del peer.waiting[path]
            peer.open_stream(request_id, subscriber, is_subscribe=True)
            subscriber.attach(request_id, wish)
            return None
        subscriber = Subscriber(peer, request_id, path, wish, is_once=headers.no_stream)
        peer.keep_queue(subscriber)
        peer.open_stream(request_id, subscriber, is_subscribe=True)
        return subscriber

    def _list(self, peer: Peer, message: Received, responder: Peer, path: str, level: int) -> None:
        fixed = {DSID: write_msgpack(responder.client.dsid)} if not path else {}
        responder.list_of(path, fixed).add(self._lister(peer, message, level))

    def _lister(self, peer: Peer, message: Received, level: int) -> Lister:
        headers = message.headers
        lister = Lister(peer, message.request_id, level, is_once=headers.no_stream, is_priority=headers.priority)
        peer.open_stream(message.request_id, lister)
        return lister

    def _check_first(self, peer: Peer, message: Received, route: Route, responder: Peer, level: int) -> None:
        """Ask the responder whether the token is good, before the request joins others."""
        is_subscribe = message.method == p.SUB
        call = LocalCall(peer, message, bytes, _nothing)
        peer.open_stream(message.request_id, call, is_subscribe=is_subscribe)

        def then(status: int) -> None:
            if peer.streams.get((message.request_id, is_subscribe)) is not call:
                return
            peer.end_stream(message.request_id, is_subscribe=is_subscribe)
            if status != CLOSED:
                self._refuse(peer, message, status)
            elif is_subscribe:
                self._subscribe(peer, message, responder, route.rest)
            else:
                self._list(peer, message, responder, route.rest, level)

        if not responder.is_serving:
            then(DISCONNECTED)
            return
        headers = message.headers
        asked = Headers(
            target_path=route.rest, permission_token=headers.permission_token, alias_count=route.aliases or None
        )
        responder.ask_check(Check(then), asked)

    # --- to nodes of ours

    def _to_node(self, peer: Peer, message: Received, node: Node, level: int) -> None:
        match message.method:
            case p.LIST:
                self._tree.list_of(node).add(self._lister(peer, message, level))
            case p.SUB if "$type" in node.entries:
                subscriber = self._subscriber(peer, message)
                if subscriber is not None:
                    self._tree.values_of(node).add(subscriber)
            case p.PREFLIGHT:
                peer.reply(p.PREFLIGHT_R, message.request_id, CLOSED)
            case p.INVOKE if node.on_invoke is not None:
                self._run(peer, message, node, "$invokable", level, read_params, node.on_invoke)
            case p.SET if message.headers.attribute_field is not None:
                self._set_attribute(peer, message, node, message.headers.attribute_field)
            case p.SET if node.on_set is not None:
                self._run(peer, message, node, "$writable", level, read_set, node.on_set)
            case _:
                self._refuse(peer, message, NOT_SUPPORTED)

    def _run(self, peer: Peer, message: Received, node: Node, key: str, level: int, read: Any, run: Run) -> None:
        if level < LEVELS[node.entries[key]]:
            self._refuse(peer, message, DENIED)
            return
        call = LocalCall(peer, message, read, run)
        peer.open_stream(message.request_id, call)
        call.renew(message)

    def _set_attribute(self, peer: Peer, message: Received, node: Node, key: str) -> None:
        if not self._broker.home.is_ours(node):
            self._refuse(peer, message, NOT_SUPPORTED)
            return

        def run(value: Any, answer: Answer) -> None:
            self._broker.home.set_attribute(node, key, value, answer)

        call = LocalCall(peer, message, read_set, checked(run))
        peer.open_stream(message.request_id, call)
        call.renew(message)


def read_params(body: bytes) -> dict[str, Any]:
    """Return the parameters of an action. DecodeError if they are no map."""
    params = read_msgpack(body) if body else {}
    if params is None:
        return {}
    if not isinstance(params, dict):
        raise BadValue("the parameters of an action are a map", rule="msgpack_map", path="body", offset=0)
    return params


def _nothing(content: Any, answer: Answer) -> None:
    """A request that waits for the answer of somebody else."""
