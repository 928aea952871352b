from __future__ import annotations

from typing import Any

import pytest

from tests.protocols.casual.played import events, messages
from wirelake.protocols import casual as p


@pytest.mark.parametrize(
    ("profile", "connect", "send", "end"),
    [
        ("document", p.ConversationConnectRequest, p.ConversationSend, p.ConversationDisconnect),
        ("late", p.ConversationConnectRequestLate, p.ConversationSendLate, p.ConversationDisconnectLate),
    ],
)
def test_conversations_use_the_messages_of_the_profile(profile: str, connect: Any, send: Any, end: Any) -> None:
    assert all(messages(kind, profile) for kind in (connect, send, end))
    other = {p.ConversationConnectRequest, p.ConversationConnectRequestLate} - {connect}
    assert not messages(other.pop(), profile)


def test_only_the_side_with_control_sends_in_a_conversation() -> None:
    control: dict[bytes, str] = {}
    for event in events():
        message = event.message
        if isinstance(message, p.ConversationConnectRequest):
            control[message.correlation] = "to_server" if message.flags & 0x0800 else "to_client"
        elif isinstance(message, p.ConversationSend):
            assert control[message.correlation] == event.direction
            if message.events & 0x20:
                control[message.correlation] = "to_client" if event.direction == "to_server" else "to_server"
            elif message.events & 0x0E:
                assert event.direction == "to_client"
                del control[message.correlation]
