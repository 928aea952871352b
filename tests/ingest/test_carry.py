"""The carry: typed data that comes back as it was, and is refused with a sentence if it is anything else."""

from __future__ import annotations

import ast
import os
import pickle
import struct
import zlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

from wirelake import __version__
from wirelake.errors import BadValue, DecodeError, LakeError
from wirelake.ingest import carry
from wirelake.ingest.carry import pack, unpack

SOURCE = Path(__file__).resolve().parents[2] / "src"


class Pair(NamedTuple):
    left: int
    right: bytes


@dataclass
class Inner:
    name: str
    pairs: list[Pair] = field(default_factory=list)


@dataclass
class Sample:
    by_key: dict[tuple[str, int], Inner] = field(default_factory=dict)
    names: frozenset[str] = frozenset()
    numbers: NDArray[np.int64] = field(default_factory=lambda: np.empty((0, 4), np.int64))
    records: NDArray[Any] = field(default_factory=lambda: np.zeros(2, [("key", "<i8"), ("side", "|u1")]))
    rows: pa.Table | None = None
    error: DecodeError | None = None


def sample() -> Sample:
    return Sample(
        {("a", 1): Inner("x", [Pair(1, b"\x00")])},
        frozenset({"p", "q"}),
        np.arange(8).reshape(2, 4),
        np.array([(1, 2), (3, 4)], [("key", "<i8"), ("side", "|u1")]),
        pa.table({"n": [1, None], "t": pa.array(["é", "z"]).dictionary_encode()}),
        BadValue("too big", rule="r", path="a.b", offset=3),
    )


def test_a_carry_comes_back_as_it_was() -> None:
    before, after = sample(), unpack(pack(sample()), Sample)
    assert (after.by_key, after.names) == (before.by_key, before.names)
    for name in ("numbers", "records"):
        assert np.array_equal(getattr(after, name), getattr(before, name))
        assert getattr(after, name).dtype == getattr(before, name).dtype
        assert getattr(after, name).flags.writeable
    assert after.rows.equals(before.rows)
    assert type(after.error) is BadValue and vars(after.error) == vars(before.error)


def test_the_same_value_has_the_same_bytes() -> None:
    assert pack(sample()) == pack(sample())


# --- refusals


def refusal(data: bytes) -> str:
    with pytest.raises(LakeError) as caught:
        unpack(data, Sample, "lake/_carry/x")
    said = str(caught.value)
    assert said.startswith("lake/_carry/x: ") and said.endswith("ingest the captures into a new lake"), said
    return said


class Hostile:
    """Unpickled, it makes a directory."""

    def __init__(self, place: Path) -> None:
        self.place = place

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.place),)


@pytest.mark.parametrize("packed", [lambda data: data, zlib.compress], ids=["pickle", "compressed pickle"])
def test_a_pickle_is_refused_and_not_run(tmp_path: Path, packed: Any) -> None:
    said = refusal(packed(pickle.dumps(Hostile(tmp_path / "made"))))
    assert "an older one wrote it, or it is damaged" in said
    assert not (tmp_path / "made").exists()


def test_a_carry_of_another_version_says_who_wrote_it_and_what_to_do() -> None:
    data = bytearray(pack(sample()))
    struct.pack_into("<H", data, len(carry.MAGIC), 7)
    said = refusal(bytes(data))
    assert f"has carry version 7, written by wirelake {__version__}" in said
    assert f"which reads version {carry.VERSION}: go on with that wirelake, or ingest" in said


def test_a_carry_cut_anywhere_or_with_a_changed_byte_is_refused() -> None:
    data = pack(sample())
    for at in range(len(data)):
        refusal(data[:at])
    for at in range(len(data)):
        changed = bytearray(data)
        changed[at] ^= 0x41
        if changed[len(carry.MAGIC) + 2] == data[len(carry.MAGIC) + 2] and not _is_writer(at):
            refusal(bytes(changed))


def _is_writer(at: int) -> bool:
    """Who wrote it is for people only."""
    start = len(carry.MAGIC) + 3
    return start <= at < start + len(__version__)


def test_a_carry_of_another_kind_is_refused() -> None:
    assert "it holds Inner, not Sample" in refusal(pack(Inner("x")))


def packed_as_sample(**fields: Any) -> bytes:
    """Bytes that are whole, and hold what no Sample holds."""
    body = msgspec.msgpack.encode(fields)
    data = pack(Sample())
    head = data[: data.index(b"Sample") - carry._BODY.size]
    described = carry._BODY.pack(len(b"Sample"), len(body), zlib.crc32(body)) + b"Sample"
    return head + described + bytes(carry._CODEC.compress(body))


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"by_key": [1]}, "Expected `object`, got `array`"),
        ({"names": [1]}, "Expected `str`, got `int`"),
        ({"numbers": ["<f8", [1], bytes(8)]}, "an array of float64 where int64 is expected"),
        ({"numbers": ["|O", [1], bytes(8)]}, "is no type of numbers"),
        ({"numbers": [[["x", "|O"]], [1], bytes(8)]}, "is no type of numbers"),
        ({"numbers": ["<i8", [1 << 40], bytes(8)]}, "has 8 bytes"),
        ({"numbers": ["<i8", [-1, -1], bytes(8)]}, "has 8 bytes"),
        ({"numbers": 7}, "is damaged"),
        ({"rows": b"nonsense"}, "is damaged"),
        ({"error": ["SystemExit", {"detail": "x"}]}, "'SystemExit' is no error of a decoder"),
        ({"error": ["DecodeError", {}]}, "is no error of a decoder"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_whole_bytes_that_hold_something_else_are_refused(fields: dict[str, Any], said: str) -> None:
    assert said in refusal(packed_as_sample(**fields))


def test_a_size_that_is_a_lie_is_refused_before_memory_is_taken() -> None:
    data = pack(Sample())
    at = data.index(b"Sample") - carry._BODY.size
    for size in (carry.LARGEST + 1, carry.SMALL + carry.RATIO * len(data), 1 << 63, 3):
        lie = data[:at] + carry._BODY.pack(len(b"Sample"), size, 0) + data[at + carry._BODY.size :]
        refusal(lie)


def test_what_a_carry_cannot_hold_is_said_when_it_is_packed() -> None:
    with pytest.raises(NotImplementedError, match="cannot hold a PosixPath"):
        pack(Inner(Path()))  # type: ignore[arg-type]


# --- nothing is unpickled


def test_nothing_that_is_read_back_from_disk_is_unpickled() -> None:
    users = set()
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            match node:
                case ast.Attribute(value=ast.Name(id="pickle" | "cloudpickle" | "marshal" | "dill" | "shelve")):
                    users.add(str(path.relative_to(SOURCE)))
                case ast.ImportFrom(module="pickle" | "cloudpickle" | "marshal" | "dill" | "shelve"):
                    users.add(str(path.relative_to(SOURCE)))
                case ast.keyword(arg="allow_pickle"):
                    users.add(str(path.relative_to(SOURCE)))
                case _:
                    pass
    assert users == set()
