"""Bytes of messages and quarantined ranges: re-encoded, captured or quarantined, and never a secret."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

from tests.report.made import account, message, write
from wirelake.codec.encoder import encode_frame
from wirelake.codec.json import from_json
from wirelake.gold.tables import protocol_table
from wirelake.protocols import load
from wirelake.report import collect, find_conversation
from wirelake.report.annotated_bytes import layouts_of
from wirelake.spec.resolve import layout

DECLARED = str(Path(__file__).parents[2] / "examples" / "sensor.py") + ":PROTOCOL"


def test_a_name_from_a_lake_loads_no_file() -> None:
    assert layouts_of("mb") and layouts_of(DECLARED) == () and layouts_of("nobody") == ()


def test_the_bytes_of_a_declared_protocol_are_re_encoded_once_its_declaration_is_loaded(tmp_path: Path) -> None:
    protocol = load(DECLARED)
    given = {"message": "hello", "fields": {"station": "north", "place.latitude": 1.0, "place.longitude": 2.0}}
    frame = encode_frame(layout(protocol), from_json(layout(protocol), given))
    common = message(0, protocol=protocol.name, message="hello", length=len(frame))
    names = ("connection", "direction", "offset", "length", "ts", "message")
    own = {name: common[name] for name in names} | {"code": 1, "station": "north"}
    own["place"] = {"latitude": 1.0, "longitude": 2.0}
    table = f"silver/{protocol.name}"
    rows = {"silver/messages": [common], table: [own], "accounting": [account(1)]}
    found = find_conversation(write(tmp_path / "lake", rows, {table: protocol_table(protocol)}), "c:c1")
    assert found is not None
    (event,) = found["events"]
    assert (event["bytes"]["from"], event["bytes"]["hex"]) == ("fields", frame.hex())
    assert "place.latitude" in [part["path"] for part in event["bytes"]["parts"]]


def test_a_message_of_a_protocol_that_is_unknown_here_has_the_fields_of_its_row_and_kept_bytes(tmp_path: Path) -> None:
    texts = [(name, pa.string()) for name in ("sensor", "connection", "direction")]
    envelope = [*texts, ("offset", pa.int64()), ("length", pa.int32())]
    kinds = [*envelope, ("ts", pa.timestamp("us", "UTC")), ("message", pa.string()), ("notes", pa.list_(pa.string()))]
    schema = pa.schema([*kinds, ("text", pa.binary()), ("nested", pa.list_(pa.struct([("number", pa.int64())])))])
    common = message(100, protocol="leaflet", message="post")
    own = {name: common[name] for name, _ in kinds if name in common} | {"text": b"\x00cat", "nested": [{"number": 7}]}
    chunks = [
        {
            "connection": "c1",
            "direction": "to_server",
            "offset": at,
            "length": 8,
            "ts": 0,
            "bytes": bytes(range(at, at + 8)),
        }
        for at in (96, 104)
    ]
    rows = {"silver/messages": [common], "silver/leaflet": [own], "accounting": [account(1)], "bronze/chunks": chunks}
    lake = write(tmp_path / "lake", rows, {"silver/leaflet": schema})
    one = find_conversation(lake, "c:c1")
    assert one is not None
    (event,) = one["events"]
    assert event["fields"] == {"text": "00636174", "nested": [{"number": 7}]}
    assert event["bytes"] == {
        "from": "kept",
        "base": 100,
        "total": 10,
        "hex": bytes(range(100, 110)).hex(),
        "parts": [],
        "error": None,
    }
    assert one["lifelines"][0]["name"] == "client of c1"


# --- what nobody should read

LOGIN = "82 12 13 03 4c00 0200 6d65 5c00 0600 733363726574"


@pytest.mark.parametrize(
    ("damaged", "shown"),
    [
        (LOGIN.replace("5c00 0600", "5c00 b200"), "8212 1303 4c00 0200 6d65"),
        (LOGIN.replace("4c00 0200", "4c00 0a02"), "8212 1303 4c00 0a02 6d65"),
        (LOGIN.replace("5c00 0600", "5c07 0600"), "8212 13"),
        (LOGIN.replace("82 12 13", "82 12 18"), "8212 1803 4c00 0200 6d65"),
        ("ffff" + LOGIN, "ffff 8212 1303 4c00 0200 6d65"),
    ],
    ids=["its length", "an earlier length", "its head", "its type", "what is before it"],
)
@pytest.mark.parametrize("protocol", ["ceda", None])
def test_the_password_of_a_damaged_login_is_not_shown(
    tmp_path: Path, damaged: str, shown: str, protocol: str | None
) -> None:
    data = bytes.fromhex(damaged)
    row = {"connection": "c1", "direction": "to_server", "offset": 0, "length": len(data), "ts": 1, "bytes": data}
    row |= {"protocol": protocol, "rule": "cell_fits", "path": "record[1]", "detail": "text of 178 bytes, 6 left"}
    accounts = [account(0, protocol=protocol, bytes_quarantined=len(data))]
    report = collect(write(tmp_path / "lake", {"silver/quarantine": [row], "accounting": accounts}))
    (event,) = report["conversations"]["c:c1"]["events"]
    assert event["bytes"]["hex"] == bytes.fromhex(shown).hex() and event["bytes"]["total"] == len(data)
    assert "password" in event["bytes"]["error"]["detail"]
    text = json.dumps(report)
    assert "s3cret" not in text and b"s3cret".hex() not in text


def test_what_a_server_said_is_shown_whole(tmp_path: Path) -> None:
    data = bytes.fromhex(LOGIN)
    row = {"connection": "c1", "direction": "to_client", "offset": 0, "length": len(data), "ts": 1, "bytes": data}
    row |= {"protocol": "ceda", "rule": "cell_fits", "path": "record[1]", "detail": "it is bad"}
    report = collect(write(tmp_path / "lake", {"silver/quarantine": [row], "accounting": [account(0)]}))
    (event,) = report["conversations"]["c:c1"]["events"]
    assert event["bytes"]["hex"] == data.hex()
