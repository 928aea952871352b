"""Finding a protocol by its name: built in, in a file, or installed by someone else."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

import wirelake
from wirelake.errors import SpecError
from wirelake.protocols import BUILT_IN, check_distinct, load, load_text
from wirelake.spec.resolve import layout

OWN = '''
from wirelake.spec import Code, Frame, Message, Protocol, Size, be, declare, field, text, u8


class Greeting(Message, code=1):
    """Says hello."""

    name: str = field(text(u8), "to whom")


HELLO = declare(
    Protocol(
        name="hello",
        title="Greetings",
        frame=Frame((Size("length", be.u16, counts="after"), Code("kind", u8))),
        messages=(Greeting,),
    )
)
NUMBER = 5
'''


@pytest.mark.parametrize("name", BUILT_IN)
def test_a_built_in_protocol_is_found_by_its_name(name: str) -> None:
    assert load(name).name == name
    assert load(name) is load(name)
    assert load(load(name)) is load(name)


def test_an_unknown_name_says_which_there_are() -> None:
    with pytest.raises(
        ValueError, match=r"unknown protocol 'nobodys': one of casual, dsa, mb, ceda, or path/to/file.py:NAME"
    ):
        load("nobodys")


def test_a_protocol_of_your_own_is_found_in_its_file(tmp_path: Path) -> None:
    path = tmp_path / "hello.py"
    path.write_text(OWN, encoding="utf-8")
    name = f"{path}:HELLO"
    assert load(name).title == "Greetings"
    message = wirelake.decode(name, bytes.fromhex("0004 01 02 6869".replace(" ", "")))
    assert message.to_json() == {
        "ok": True,
        "protocol": "hello",
        "message": "greeting",
        "code": 1,
        "length": 6,
        "fields": {"name": "hi"},
    }
    assert wirelake.encode(message) == bytes.fromhex("000401026869")


@pytest.mark.parametrize(
    ("attribute", "detail"), [("NOTHING", "'NOTHING' is not a protocol declaration"), ("NUMBER", "'NUMBER' is not a")]
)
def test_a_file_without_that_protocol_is_refused(tmp_path: Path, attribute: str, detail: str) -> None:
    path = tmp_path / "hello.py"
    path.write_text(OWN, encoding="utf-8")
    with pytest.raises(ValueError, match=detail):
        load(f"{path}:{attribute}")


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no such file"):
        load(f"{tmp_path}/none.py:X")


def test_a_file_with_a_bad_declaration_is_refused_when_it_is_loaded(tmp_path: Path) -> None:
    path = tmp_path / "bad.py"
    path.write_text(OWN.replace("code=1", "code=999"), encoding="utf-8")
    for _ in range(2):
        with pytest.raises(SpecError, match="protocol hello: Greeting: the code 999 does not fit in kind"):
            load(f"{path}:HELLO")


def test_two_files_of_one_name_are_two_modules(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "own.py").write_text(OWN.replace("Greetings", folder), encoding="utf-8")
    assert load(f"{tmp_path}/a/own.py:HELLO").title == "a"
    assert load(f"{tmp_path}/b/own.py:HELLO").title == "b"


def test_a_declaration_can_be_loaded_from_its_text() -> None:
    text = (Path(__file__).resolve().parents[2] / "examples" / "bulletin.py").read_text(encoding="utf-8")
    name = load_text(text, "PROTOCOL")
    assert load_text(text, "PROTOCOL") == name
    assert load(name).name == "bulletin"
    with pytest.raises(ValueError, match="'NOTHING' is not a protocol declaration"):
        load_text(text, "NOTHING")
    layout_ = layout(load(name))
    assert pickle.loads(pickle.dumps(layout_)) is layout_


@pytest.mark.parametrize("name", BUILT_IN)
def test_a_declaration_with_the_name_of_a_built_in_protocol_is_refused(name: str, tmp_path: Path) -> None:
    path = tmp_path / "own.py"
    path.write_text(OWN.replace('name="hello"', f'name="{name}"'), encoding="utf-8")
    with pytest.raises(SpecError, match=f"protocol {name} has the name of a built-in protocol; write another name"):
        load(f"{path}:HELLO")


@pytest.mark.parametrize("name", ["messages", "quarantine"])
def test_a_declaration_with_the_name_of_another_table_is_refused(name: str, tmp_path: Path) -> None:
    path = tmp_path / "own.py"
    path.write_text(OWN.replace('name="hello"', f'name="{name}"'), encoding="utf-8")
    with pytest.raises(SpecError, match=f"every lake has a table silver/{name}: give the protocol another name"):
        load(f"{path}:HELLO")


def test_two_declarations_with_one_name_are_not_read_together(tmp_path: Path) -> None:
    names = []
    for stem in ("one", "two"):
        (tmp_path / f"{stem}.py").write_text(OWN, encoding="utf-8")
        names.append(f"{tmp_path / stem}.py:HELLO")
    check_distinct([names[0], names[0], *BUILT_IN])
    with pytest.raises(ValueError, match=r"one.py:HELLO and .*two.py:HELLO are both named 'hello': rename one of them"):
        check_distinct(names)
