"""The quick encoder: the same bytes as the encoder of records, and the same faults."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from wirelake.codec import decode
from wirelake.codec.encoder import encode_frame
from wirelake.codec.quick_encoder import _Compiler, encoder_for
from wirelake.errors import EncodeError
from wirelake.protocols import casual as c
from wirelake.spec.resolve import layout

LAYOUT = layout(c.PROTOCOL)
encode = encoder_for(LAYOUT)
VECTORS = Path(__file__).resolve().parents[1] / "vectors" / "casual"


def messages() -> list[Any]:
    found = []
    for path in sorted(VECTORS.rglob("*.json")):
        content = json.loads(path.read_text())
        for case in content if isinstance(content, list) else content.get("cases", [content]):
            if isinstance(case, dict) and "hex" in case and "error" not in case:
                try:
                    found.append(decode("casual", bytes.fromhex(case["hex"].replace(" ", ""))))
                except Exception:
                    continue
    return found


def test_every_message_of_casual_is_compiled() -> None:
    for node in LAYOUT.messages.values():
        assert callable(_Compiler(LAYOUT, node).compile())


def test_vectors_have_the_same_bytes() -> None:
    found = messages()
    assert len({type(message) for message in found}) == len(LAYOUT.messages)
    for message in found:
        assert encode(message) == encode_frame(LAYOUT, message)


BUFFER = c.Buffer("X_OCTET/", b"x")


@pytest.mark.parametrize(
    "message",
    [
        c.QueueEnqueueReply(bytes(16), bytes(15), bytes(16)),
        c.QueueEnqueueReply(bytes(16), bytes(16), "text"),  # type: ignore[arg-type]
        c.ServiceCallReply(bytes(16), bytes(16), c.Call(1 << 31, 0), c.NULL_XID, c.TransactionState(0), BUFFER),
        c.ServiceCallReply(bytes(16), bytes(16), c.Call(0, 0), c.NULL_XID, c.TransactionState(300), BUFFER),
        c.ResourcePrepareRequest(bytes(16), bytes(16), c.Xid(42, bytes(65), bytes(64)), c.Resource(1), 0),
        c.ResourcePrepareRequest(bytes(16), bytes(16), c.Xid(-1, b"data", b""), c.Resource(1), 0),
        c.ConversationDisconnect(bytes(16), bytes(16), c.Nodes(("x",)), 1),  # type: ignore[arg-type]
    ],
)
def test_what_cannot_be_written_has_the_fault_of_the_exact_encoder(message: Any) -> None:
    with pytest.raises(EncodeError) as exact:
        encode_frame(LAYOUT, message)
    with pytest.raises(EncodeError) as quick:
        encode(message)
    assert (quick.value.rule, quick.value.path) == (exact.value.rule, exact.value.path)
