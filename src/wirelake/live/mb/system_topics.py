"""The topics that a broker answers itself: registering, subscribing, listings, its log, its metrics."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from ...codec.content import read_json
from ...errors import DecodeError
from ...protocols.mb import ANY_UUID
from ...protocols.mb.conduct import AUDIT, HEARTBEAT, REGISTER, SYSTEM
from .connection import Service
from .log import LEVELS, LOG
from .log_filter import Filter
from .topics import is_valid_topic
from .wire import ERROR_PREFIX, PUBLISH, REQUEST, RESPONSE, Fault, Head, plain_number, write_json

if TYPE_CHECKING:
    from .server import MbBroker

SUCCESS = b'{"status":"success"}'
FAILURE = b'{"status":"failure"}'
SUBSCRIBABLE = frozenset({LOG, AUDIT, REGISTER, "system.topic.subscribe", "system.topic.unsubscribe"})
UNSUBSCRIBABLE = frozenset({REGISTER, "system.topic.subscribe"})
LISTINGS = frozenset(
    f"system.{name}"
    for name in ("service.list", "service.subscriptions", "topic.list", "topic.subscriptions", "metrics")
)
LISTED = 4 << 20
"""Bytes of listings that one service gets in a second; with the last one it may be more."""
ALL_LISTED = 32 << 20
"""The same of all services together."""
MAX_NAME = 36
MAX_DESCRIPTION = 1024
_is_service_id = re.compile(ANY_UUID).fullmatch

Args = dict[str, Any]


class SystemTopics:
    """Answers for one broker. Every method gives a payload, or raises the Fault that is answered instead."""

    def __init__(self, broker: MbBroker) -> None:
        self._broker = broker
        self._bare: dict[str, Callable[[Service], bytes]] = {
            "system.service.list": self._services,
            "system.topic.list": lambda _: self._all_topics("topics"),
            "system.topic.subscriptions": lambda _: self._all_topics("subscriptions"),
            "system.log.unsubscribe": self._stop_log,
        }
        """Those that do not look at the payload."""
        self._told: dict[str, Callable[[Service, Args], bytes]] = {
            REGISTER: self._register,
            "system.service.subscriptions": self._subscriptions_of,
            "system.topic.subscribe": self._subscribe,
            "system.topic.unsubscribe": self._unsubscribe,
            "system.log.subscribe": self._start_log,
            "system.metrics": lambda _, args: write_json({"metrics": broker.measured(args)}),
        }

    def answer(self, service: Service, head: Head, payload: bytes) -> bytes | None:
        """The payload of the answer, None where there is none."""
        name = head.name
        if name == HEARTBEAT and head.action != PUBLISH:
            return SUCCESS if head.action == REQUEST else None
        if head.action != REQUEST:
            details = {"action": head.action, "topic": head.topic}
            raise Fault("INVALID_REQUEST", f"{head.topic} takes no {head.action}", details)
        # Listings grow with the number of services and subscriptions, so nobody gets any number of them.
        spent, own, is_listing = self._broker.spent, (LISTINGS, service), name in LISTINGS
        if is_listing and (spent[own] >= LISTED or spent[LISTINGS] >= ALL_LISTED):
            raise Fault("SERVICE_UNAVAILABLE", "too much was listed in this second")
        if name in self._bare:
            answer = self._bare[name](service)
        elif name in self._told:
            answer = self._told[name](service, read_args(payload))
        else:
            raise Fault("TOPIC_NOT_SUPPORTED", f"{head.topic} is not a topic of this broker")
        if is_listing:
            spent[own] += len(answer)
            spent[LISTINGS] += len(answer)
        return answer

    def _register(self, service: Service, args: Args) -> bytes:
        name, description = args.get("name"), args.get("description")
        if not (isinstance(name, str) and name and isinstance(description, str) and description):
            raise invalid("name and description have to be text", args, "name", "description")
        if utf16_length(name) > MAX_NAME:
            raise invalid(f"the name is longer than {MAX_NAME}", args, "name")
        if utf16_length(description) > MAX_DESCRIPTION:
            raise invalid(f"the description is longer than {MAX_DESCRIPTION}", args, "description")
        service.name, service.description = name, description
        broker, text = self._broker, f"Service {service.id} updated."
        broker.counts["registry.registration"] += 1
        broker.log.write("info", "ServiceRegistry", text, service, name=name, description=description)
        return SUCCESS

    def _services(self, service: Service) -> bytes:
        broker = self._broker
        broker.counts["registry.discovery"] += 1
        shown = broker.clock.shown
        found = [
            {
                "id": one.id,
                "name": one.name,
                "description": one.description,
                "connectedAt": shown(one.connected_at),
                "lastHeartbeat": shown(one.heard),
            }
            for one in broker.services.values()
        ]
        return write_json({"services": found})

    def _subscriptions_of(self, service: Service, args: Args) -> bytes:
        wanted = service.id if args.get("serviceId") is None else args["serviceId"]
        if not isinstance(wanted, str) or not _is_service_id(wanted):
            raise invalid("serviceId has to be a UUID in lower case", args, "serviceId")
        one = self._broker.services.get(wanted)
        if one is None:
            raise Fault("SERVICE_UNAVAILABLE", f"there is no service {wanted}")
        found: list[dict[str, Any]] = [{"action": PUBLISH, "topic": topic} for topic in one.topics[PUBLISH]]
        found += [{"action": REQUEST, "topic": topic, "priority": n} for topic, n in one.topics[REQUEST].items()]
        found.sort(key=lambda entry: (entry["topic"], entry["action"]))
        return write_json({"subscriptions": found})

    def _subscribe(self, service: Service, args: Args) -> bytes:
        action, topic = self._action_and_topic(args, SUBSCRIBABLE)
        priority = args.get("priority", 0)
        number = plain_number(priority) if type(priority) in (int, float) else None
        if number is None:
            raise invalid("priority has to be a finite number", args, "priority")
        if action == RESPONSE:
            return FAILURE
        self._broker.subscribe(service, action, topic, number)
        return SUCCESS

    def _unsubscribe(self, service: Service, args: Args) -> bytes:
        action, topic = self._action_and_topic(args, UNSUBSCRIBABLE)
        return SUCCESS if action != RESPONSE and self._broker.unsubscribe(service, action, topic) else FAILURE

    def _action_and_topic(self, args: Args, allowed: frozenset[str]) -> tuple[str, str]:
        action, topic = args.get("action"), args.get("topic")
        if action not in (PUBLISH, REQUEST, RESPONSE):
            raise invalid("action has to be publish or request", args, "action")
        wildcards = self._broker.options.wildcard_subscriptions
        if not isinstance(topic, str) or not is_valid_topic(topic, wildcards=wildcards):
            raise invalid("not a valid topic", args, "topic")
        name = topic.lower()
        if name.startswith(SYSTEM) and name not in allowed:
            raise invalid("this topic is restricted", args, "topic")
        return action, name

    def _all_topics(self, key: str) -> bytes:
        listing, limit = self._broker.topics.listing, self._broker.options.max_unsent
        if listing.size() > limit:
            raise Fault("SERVICE_UNAVAILABLE", f"the list is larger than {limit} bytes")
        texts = listing.texts() or [b""]
        texts[0] = b'{"%b":[%b' % (key.encode(), texts[0])
        texts[-1] += b"]}"
        return b",".join(texts)

    def _start_log(self, service: Service, args: Args) -> bytes:
        levels = args.get("levels", ["error"])
        if not isinstance(levels, list):
            raise invalid("levels has to be an array", args, "levels")
        for level in levels:
            if level not in LEVELS:
                raise Fault("INVALID_REQUEST", f"a level is one of {', '.join(LEVELS)}", {"level": level})
        regex = args.get("regex")
        if regex is not None and not isinstance(regex, str):
            raise invalid("regex has to be text", args, "regex")
        try:
            pattern = Filter(regex) if regex else None
        except ValueError as error:
            raise invalid(f"regex: {error}", args, "regex") from None
        self._broker.subscribe(service, PUBLISH, LOG)
        self._broker.log.start(service, frozenset(levels), pattern)
        return SUCCESS

    def _stop_log(self, service: Service) -> bytes:
        self._broker.unsubscribe(service, PUBLISH, LOG)
        self._broker.log.stop(service)
        return SUCCESS


def read_args(payload: bytes) -> Args:
    """The arguments in a payload. What is JSON but no object has no keys."""
    is_error = payload.startswith(ERROR_PREFIX)
    text = payload[len(ERROR_PREFIX) :] if is_error else payload
    try:
        value = read_json(text)
    except DecodeError as error:
        raise Fault("MALFORMED_MESSAGE", error.detail, {"payload": text.decode("utf-8", "replace")}) from None
    if is_error:
        if not isinstance(value, dict) or not all(value.get(key) for key in ("code", "message", "timestamp")):
            details = {"error": value} if value is not msgspec.UNSET else {}
            raise Fault("MALFORMED_MESSAGE", "an error needs code, message and timestamp", details)
        raise Fault("INVALID_REQUEST", "an error is no argument", {})
    if value is None or value is msgspec.UNSET:
        raise Fault("INVALID_REQUEST", "arguments are missing", {})
    return value if isinstance(value, dict) else {}


def invalid(text: str, args: Args, *names: str) -> Fault:
    """Wrong arguments: they are told as they came, where they came."""
    return Fault("INVALID_REQUEST", text, {name: args[name] for name in names if name in args})


def utf16_length(text: str) -> int:
    return len(text.encode("utf-16-le", "surrogatepass")) // 2
