"""The record of each live protocol: what it leads to exists, and it costs nothing to have it."""

from __future__ import annotations

import inspect
import subprocess
import sys

import pytest

from wirelake.live.core.message_json import MessageJson
from wirelake.live.hub.settings import ServiceSettings
from wirelake.live.records import LIVE, Live
from wirelake.protocols import BUILT_IN, load

EACH = pytest.mark.parametrize("live", LIVE.values(), ids=list(LIVE))


@EACH
def test_a_record_leads_to_a_client_a_service_and_the_json_of_messages(live: Live) -> None:
    assert live.name in BUILT_IN
    assert issubclass(live.service, ServiceSettings) and isinstance(live.message_json, MessageJson)
    assert live.service().listeners == {}
    known = set(inspect.signature(live.connect).parameters)
    assert {option.name for option in live.options["connect"]} <= known


@pytest.mark.parametrize(("live", "verb"), [(live, verb) for live in LIVE.values() for verb in live.verbs])
def test_a_client_can_do_what_its_verbs_say_and_takes_their_options(live: Live, verb: str) -> None:
    module = sys.modules[live.connect.__module__]
    client = next(kind for name, kind in vars(module).items() if name.lower() == f"{live.name}client")
    call = getattr(client, verb)
    assert {option.name for option in live.options.get(verb, ())} <= set(inspect.signature(call).parameters)


@EACH
def test_declared_ports_win_and_every_usual_listener_has_one(live: Live) -> None:
    declared = load(live.name).ports
    assert declared.items() <= live.ports.items()
    assert not set(live.hub_ports) & set(declared)
    assert len(set(live.hub_listeners.values())) == len(live.hub_listeners) == len(set(live.ports) & {"tcp", "ws"})


def test_a_protocol_without_usual_ports_says_so() -> None:
    portless = [live for live in LIVE.values() if not live.ports]
    for live in portless:
        assert live.hub_listeners == {}
        with pytest.raises(ValueError, match=f"{live.name} has no usual port"):
            live.port("tcp")


def test_help_loads_no_event_loop_for_the_records() -> None:
    code = "import sys, wirelake.live.records; print(*({'asyncio', 'ssl', 'websockets'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "\n"
