"""Where to connect: URLs, plain addresses, TLS."""

from __future__ import annotations

import logging
import ssl

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wirelake.live.drive.urls import parse_url, tls_context
from wirelake.live.records import LIVE
from wirelake.protocols import load


@pytest.mark.parametrize(
    ("url", "protocol", "transport", "port"),
    [
        ("mb://h", "mb", "tcp", 3001),
        ("mbs://h", "mb", "tls", 8001),
        ("mb+tls://h", "mb", "tls", 8001),
        ("mb+ws://h", "mb", "ws", 3000),
        ("mb+wss://h", "mb", "wss", 8000),
        ("ceda://h", "ceda", "tcp", 8088),
        ("cedas://h", "ceda", "tls", 8088),
        ("ceda+ws://h", "ceda", "ws", 8089),
        ("MB://h:77", "mb", "tcp", 77),
    ],
)
def test_the_scheme_says_protocol_and_transport_and_the_port_is_the_declared_one(
    url: str, protocol: str, transport: str, port: int
):
    target = parse_url(url)
    assert (target.protocol, target.transport, target.host, target.port) == (protocol, transport, "h", port)


def test_the_default_ports_are_those_of_the_declaration():
    ports = load("mb").ports
    assert [parse_url(f"mb+{kind}://h").port for kind in ports] == list(ports.values())


def test_our_hub_is_found_without_a_port():
    for live in LIVE.values():
        for transport, port in live.hub_listeners.items():
            assert parse_url(f"{live.name}+{transport}://h").port == port


def test_a_plain_address_needs_a_protocol():
    assert str(parse_url("localhost:3001", "mb")) == "mb://localhost:3001"
    assert parse_url("localhost", "ceda").port == 8088
    with pytest.raises(ValueError, match="write mb://localhost:3001 or ceda://localhost:3001"):
        parse_url("localhost:3001")


def test_an_ipv6_address_stands_in_brackets():
    target = parse_url("mb+ws://[::1]:3000")
    assert (target.host, target.place) == ("::1", "[::1]:3000")
    assert target.websocket_url == "ws://[::1]:3000/"


def test_user_and_password_are_unquoted_and_the_password_is_never_shown():
    target = parse_url("ceda://me%40home:p%2Fw%3A@h:1")
    assert (target.user, target.password) == ("me@home", "p/w:")
    assert "p/w" not in repr(target) + str(target)


def test_a_websocket_has_a_path_and_ceda_a_usual_one():
    assert parse_url("ceda+wss://h").websocket_url == "wss://h:8088/mqtunnel"
    assert parse_url("mb+ws://h/a/b").path == "/a/b"


@pytest.mark.parametrize(
    ("url", "protocol", "words"),
    [
        ("http://h", None, "'http' is not a protocol to connect to"),
        ("mb+udp://h", None, "is not a protocol to connect to"),
        ("amqp://h", None, "is not a protocol to connect to"),
        ("mb://", None, "no host"),
        ("mb://h:x", None, "no number"),
        ("mb://h:99999", None, "no number"),
        ("mb://h:0", None, "port 0"),
        ("mb://u:p@h", None, "has no login"),
        ("mb://h/path", None, "only a WebSocket has a path"),
        ("mb://h?x=1", None, "has no [?]"),
        ("ceda://u:p#w@h", None, "no host|no [?] and no #"),
        ("mb://h", "ceda", "is a URL of mb, not of ceda"),
    ],
)
def test_what_makes_no_sense_is_refused_with_a_reason(url: str, protocol: str | None, words: str):
    with pytest.raises(ValueError, match=words):
        parse_url(url, protocol)


@given(st.text(max_size=30))
def test_no_text_does_anything_but_parse_or_be_refused(text: str):
    for url in (text, f"mb://{text}", f"ceda+ws://{text}"):
        try:
            target = parse_url(url, None)
        except ValueError:
            continue
        assert target.host and 0 < target.port < 65536


def test_tls_verifies_unless_it_is_told_not_to(caplog: pytest.LogCaptureFixture):
    context = tls_context()
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, True)
    assert context.minimum_version >= ssl.TLSVersion.TLSv1_2
    with caplog.at_level(logging.WARNING, "wirelake.live"):
        context = tls_context(verify=False)
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_NONE, False)
    assert "not verified" in caplog.text


def test_a_key_alone_is_refused():
    with pytest.raises(ValueError, match="give cert="):
        tls_context(key="key.pem")
