"""Annotated hex: every byte is drawn once, with its field."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.cli.invoked import CALL
from wirelake.cli import cli

PUBLIC = Path(__file__).parents[1] / "codec" / "public"


def inspect(*arguments: str, given: bytes = b"") -> tuple[int, str]:
    result = CliRunner().invoke(cli, ["inspect", "--no-color", *arguments], input=given)
    return result.exit_code, result.stdout


def drawn(text: str) -> bytes:
    """The bytes in the hex columns, in order."""
    found = re.findall(r"^ *\d+ [0-9a-f]{4}  ((?:[0-9a-f]{2} )*[0-9a-f]{2})(?: |$)", text, re.M)
    return bytes.fromhex("".join(found))


def test_every_field_has_offset_bytes_name_and_value() -> None:
    code, text = inspect("-p", "casual", "--hex", CALL)
    assert code == 0
    assert "casual service_call_request (3100), 117 bytes" in text
    assert re.search(r"^ +56 0038  65 63 68 6f +service\.name = \"echo\"  text$", text, re.M)
    assert re.search(r"^ +76 004c  (ff ){7}ff +xid\.format = -1  int64$", text, re.M)
    assert drawn(text) == bytes.fromhex(CALL)


@pytest.mark.parametrize(
    ("protocol", "frame"),
    [
        ("ceda", "821c13037c00040070792d315c000600733363726574 4c00040064656d6f"),
        ("dsa", "41000000180082050000001f00000000002021030070756203002469730500a4756e6974"
                "040074656d700e0081a52474797065a66e756d62657203006f6c640000"),
        ("dsa", "0b0000000700f822000000"),
    ],
)  # fmt: skip
def test_every_byte_is_drawn_once(protocol: str, frame: str) -> None:
    code, text = inspect("-p", protocol, "--hex", frame)
    assert code == 0
    assert drawn(text) == bytes.fromhex(frame)


@pytest.mark.parametrize(
    ("name", "frame", "title"),
    [
        ("cql", "840000080000000009 00002200 0003 626164", "cql error (132.0), 18 bytes"),
        ("kafka", "0000000c 000a 0002 0000000a 0001 61 ff", "kafka other_request (any other), 16 bytes"),
    ],
)
def test_a_code_is_shown_as_it_is_on_the_wire(name: str, frame: str, title: str) -> None:
    _, text = inspect("-p", f"{PUBLIC / name}.py:PROTOCOL", "--hex", frame)
    assert text.startswith(title)


def test_labels_stand_beside_numbers() -> None:
    _, text = inspect("-p", "ceda", "--hex", "8203110d00")
    assert "control_code = 13 SUB_BATCH" in text
    _, text = inspect(
        "-p", "casual", "--hex", CALL.replace("ffffffffffffffff0000000000000000", "ffffffffffffffff000000000000000c")
    )
    assert "flags = 12 TPNOREPLY | TPNOTRAN" in text


def test_a_fault_is_drawn_at_its_byte_behind_what_was_read() -> None:
    code, text = inspect("-p", "mb", "--hex", b"publish:a.b:1.0z\n{}".hex())
    assert code == 1
    assert 'topic = "a.b"' in text
    assert re.search(r"^ +12 000c  31 2e 30 7a .*error: version: .* \[version\]$", text, re.M)


def test_a_file_is_drawn_frame_by_frame_with_what_lies_between(tmp_path: Path) -> None:
    path = tmp_path / "x.raw"
    path.write_bytes(bytes.fromhex("820101") + b"junk" + bytes.fromhex("820114820101"))
    code, text = inspect("-p", "ceda", str(path))
    assert code == 1
    titles = [line for line in text.splitlines() if line.startswith("ceda ")]
    assert titles == [
        "ceda heartbeat (1), 3 bytes, undecided",
        "ceda undecodable, 4 bytes, undecided at offset 3",
        "ceda logout (20), 3 bytes, undecided at offset 7",
        "ceda heartbeat (1), 3 bytes, undecided at offset 10",
    ]
    assert inspect("-p", "ceda", "-n", "1", str(path))[0] == 0


def test_long_fields_are_shortened_unless_asked_for() -> None:
    frame = CALL.replace("00000000000000035b315d", "00000000000000675b" + "31" * 100 + "5d20").replace(
        "0000000000000055", "00000000000000b9"
    )
    _, text = inspect("-p", "casual", "--hex", frame)
    assert "... 55 more bytes" in text
    _, text = inspect("-p", "casual", "--all-bytes", "--hex", frame)
    assert drawn(text) == bytes.fromhex(frame)


def test_a_truncated_frame_shows_the_fields_that_are_there() -> None:
    result = CliRunner().invoke(cli, ["inspect", "-p", "casual", "--hex", CALL[:160]])
    assert result.exit_code == 1
    assert result.output.startswith("casual service_call_request, 80 bytes")
    assert 'service.name = "echo"' in result.output
    assert re.search(r"80 0050 +\(end\) +incomplete: .*frame_incomplete", result.output)


@pytest.mark.parametrize("size", range(17))
def test_a_header_can_end_anywhere(size: int) -> None:
    result = CliRunner().invoke(cli, ["inspect", "-p", "casual", "--hex", CALL[: 2 * size]])
    assert (result.exit_code, result.output.count("incomplete:")) == (1, 1)
    assert ("type = 3100" in result.output) == (size >= 8)


@pytest.mark.parametrize("verb", ["inspect", "decode"])
def test_a_capture_is_not_taken_for_frames(verb: str, tmp_path: Path) -> None:
    for form in ("pcap", "tap"):
        path = tmp_path / f"calls.{form}"
        CliRunner().invoke(cli, ["generate", "-p", "casual", "-n", "5", "--format", form, "-o", str(path)])
        result = CliRunner().invoke(cli, [verb, "-p", "casual", str(path)])
        assert result.exit_code == 2
        assert f"{path} is a capture ({form}): use `wirelake ingest {path} LAKE`" in result.output


@pytest.mark.parametrize(
    ("name", "given", "fields"),
    [
        (
            "stomp",
            b"SEND\ndestination:/q\nreceipt:1\n\nhel",
            ('[0].value = "/q"', '[1].value = "1"', "end of the list"),
        ),
        ("resp2", b"*2\r\n$3\r\nGET\r\n$5\r\nab", ("(count) = 2", 'items[0].value = "GET"', "(length) = 5")),
        ("amqp", bytes.fromhex("01 0001 0000000d 003c 0050 0000000000000007 00"), ("delivery_tag = 7", "multiple = 0")),
        ("modbus_tcp", bytes.fromhex("0007 0000 000b 01 10 0003 0002 04 0001"), ("count = 2", "registers[0] = 1")),
    ],
)
def test_a_frame_that_is_cut_off_is_drawn_with_the_fields_that_are_there(
    name: str, given: bytes, fields: tuple[str, ...]
) -> None:
    side = ("--option", "sent_by=client") if name == "modbus_tcp" else ()
    code, text = inspect("-p", f"examples/protocols/{name}.py:PROTOCOL", *side, "-", given=given)
    first = text.split("\n\n")[0]
    assert code == 1 and first.endswith("[frame_incomplete]")
    assert all(field in first for field in fields), first
