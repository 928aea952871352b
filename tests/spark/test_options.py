"""Options: Spark's spelling, any case, and a clear word for what is not understood."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from wirelake.errors import OptionError
from wirelake.ingest.declared import Declared
from wirelake.spark.options import Decoding, Encoding, read_options, write_options

CASUAL = Declared("casual")


def test_names_count_whatever_their_case() -> None:
    made = read_options("casual", {"PATH": "x", "Mode": "dropmalformed", "MAXPARTITIONBYTES": "2m", "Profile": "late"})
    assert made.paths == ("x",)
    assert (made.mode, made.partition_bytes) == ("DROPMALFORMED", 2 << 20)
    assert made.reading == (("casual", (("profile", "late"),)),)


def test_the_mode_of_a_protocol_is_its_profile_here() -> None:
    assert read_options("dsa", {"profile": "compat"}).reading == (("dsa", (("mode", "compat"),)),)
    assert Decoding.of(Declared("dsa"), {"profile": "STRICT", "frame_only": True}, "f").reading == (
        ("mode", "strict"),
        ("frame_only", True),
    )


@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        (
            "casual",
            {"nonsense": "1"},
            "has no option 'nonsense'; it has: basePath, columnNameOfCorruptRecord, columns, failOnDataLoss, ignore",
        ),
        ("casual", {"dialect": "ceda4"}, "has no option 'dialect'"),
        ("casual", {"mode": "lenient"}, "the option mode is 'lenient'; it must be one of PERMISSIVE, DROPMALFORMED"),
        ("ceda", {"dialect": "x"}, "the option dialect is 'x'; it must be for ceda one of auto, ceda4, ceda4-ws"),
        ("casual", {"maxPartitionBytes": "many"}, "must be a number of bytes such as 134217728 or 128m"),
        ("casual", {"maxPartitionBytes": "0"}, "must be a number of bytes"),
        ("casual", {"modifiedAfter": "yesterday"}, "must be a time such as 2024-06-01T13:00:00"),
        ("casual", {"rotated": "maybe"}, "must be one of true, false"),
        ("casual", {"ports": "http"}, "must be ports with their protocols"),
        ("wire", {"ports": "7771"}, "must be ports with their protocols, such as 7771=casual"),
        ("wire", {"ports": "7771=nobody"}, "must be ports of casual, dsa, mb, ceda"),
        ("wire", {"protocol": "nobody"}, "unknown protocol 'nobody'"),
        ("wire", {"protocol": "nowhere.py:X"}, "the protocol's file nowhere.py cannot be read"),
        ("casual", {"kind": "zip"}, "must be one of pcap, pcapng, tap, raw"),
        ("casual", {"columns": " , "}, "must be names separated by commas"),
    ],
)
def test_what_is_not_understood_is_refused_with_what_would_be(name: str, options: dict[str, str], said: str) -> None:
    with pytest.raises(OptionError, match=re.escape(said)):
        read_options(name, options)


def test_several_paths_come_as_a_list() -> None:
    assert read_options("casual", {"paths": '["a", "b"]'}).paths == ("a", "b")


def test_ports_name_their_protocol_where_there_are_several() -> None:
    assert read_options("casual", {"ports": "7771, 7772"}).ports == ((7771, "casual"), (7772, "casual"))
    assert read_options("wire", {"ports": "1=casual,2=ceda"}).ports == ((1, "casual"), (2, "ceda"))


@pytest.mark.parametrize("kind", [Decoding, Encoding])
def test_a_function_cannot_drop_rows(kind: Any) -> None:
    with pytest.raises(OptionError, match="a function cannot drop rows"):
        kind.of(CASUAL, {"mode": "DROPMALFORMED"}, "from_casual")


def test_a_declaration_that_is_none_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "empty.py"
    path.write_text("x = 1\n")
    with pytest.raises(OptionError, match="'PROTOCOL' is not a protocol declaration"):
        Declared.named(f"{path}:PROTOCOL")


def test_the_fields_of_all_protocols_at_once_are_refused() -> None:
    with pytest.raises(OptionError, match="view=fields is the table of one protocol"):
        read_options("wire", {"path": "/tmp", "view": "fields"})
    assert not read_options("wire", {"path": "/tmp", "view": "fields", "protocol": "casual"}).is_common
    assert read_options("wire", {"path": "/tmp", "protocol": "casual"}).is_common


def test_a_path_is_written_in_several_ways() -> None:
    assert read_options("casual", {"paths": '["file:/a/b", "c"]'}).paths == ("/a/b", "c")
    assert write_options("casual", {"path": "s3a://b/out"}).path == "s3://b/out"
    for place, said in (("ftp://x/y", "ftp: is not a kind of place: use a path, file:/"), ("s3://", "names no bucket")):
        for made in (read_options, write_options):
            with pytest.raises(OptionError, match=said):
                made("casual", {"path": place})


def test_what_is_written_is_checked_once() -> None:
    made = write_options("mb", {"path": "out", "KIND": "raw", "ifexists": "ERROR", "profile": "upstream"})
    assert (made.kind, made.if_exists, made.compression) == ("raw", "error", "none")
    assert dict(made.encoding.reading) == {"profile": "upstream", "framing": "tcp"}
    assert dict(write_options("wire", {"path": "x", "protocol": "dsa"}).encoding.reading) == {}
    for options, said in (
        ({}, r'write.format\("casual"\) needs a path'),
        (
            {"path": "x", "mode": "PERMISSIVE"},
            "the option mode is 'PERMISSIVE'; it must be one of FAILFAST, DROPMALFORMED",
        ),
        ({"path": "x", "rotated": "true"}, "has no option 'rotated'"),
    ):
        with pytest.raises(OptionError, match=said):
            write_options("casual", options)
