"""The class syntax: what a declaration gives."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import msgspec
import pytest

import wirelake
from wirelake.errors import SpecError
from wirelake.protocols import casual, ceda, dsa
from wirelake.spec import (
    UNSET,
    Code,
    Frame,
    IfLeft,
    LengthOf,
    Message,
    Protocol,
    Size,
    Struct,
    be,
    choose,
    declare,
    deferred,
    derived,
    field,
    many,
    messages_in,
    nested,
    optional,
    text,
    u8,
)
from wirelake.spec.declare import tag_rows

FRAME = Frame((Size("length", be.u16, counts="after"), Code("kind", u8)))


def protocol(*messages: Any) -> Protocol:
    return Protocol(name="trial", title="Trial", frame=FRAME, messages=messages)


class Place(Struct):
    """Where it was measured."""

    room: str = field(text(u8), "name of the room")
    floor: int = field(be.i16, "counted from the street")


class Measured(Message, code=1, kind="event"):
    """One measurement."""

    station: str = field(text(u8), "which station", role="address")
    place: Place = field(nested(Place), "where it hangs")
    values: tuple[float, ...] = field(many(be.f64, u8), "what it measured")
    note: str | None = optional(text(u8), "a remark", when=IfLeft())
    loudness = derived(LengthOf("station"), "how much it says")


class Reset(Message, code=2, kind="control", as_name="sensor_reset"):
    """Start over."""


SENSOR = declare(protocol(Measured, Reset))


def test_the_class_is_the_record() -> None:
    frame = wirelake.encode(Measured(station="t1", place=Place("hall", -1), values=(1.5, 2.5)))
    assert (
        frame.hex() == "001c" + "01" + "027431" + "0468616c6c" + "ffff" + "02" + "3ff8000000000000" + "4004000000000000"
    )
    message = wirelake.decode(SENSOR, frame)
    assert type(message) is Measured
    assert (message.station, message.place.room, message.place.floor, message.values) == ("t1", "hall", -1, (1.5, 2.5))
    assert message.note is None
    assert message == Measured(station="t1", place=Place("hall", -1), values=(1.5, 2.5))


def test_field_order_is_wire_order_and_names_come_from_the_class() -> None:
    assert [f.name for f in Measured.__wire_fields__] == ["station", "place", "values", "note"]
    assert Measured.__message__["name"] == "measured"
    assert Reset.__message__["name"] == "sensor_reset"
    assert Measured.__protocol__ is SENSOR


def test_a_derived_value_is_computed_and_shown() -> None:
    message = wirelake.decode(SENSOR, bytes.fromhex("000a 01 0174 0168 0005 00 0178 78".replace(" ", ""))[:12])
    assert message.loudness == 1
    assert message.to_json()["fields"]["loudness"] == 1
    assert message.to_json()["fields"]["place.room"] == "h"


def test_records_are_immutable() -> None:
    message = Measured(station="t1", place=Place("hall", 1), values=())
    for target, name in ((message, "station"), (message.place, "room"), (message, "layout")):
        with pytest.raises(AttributeError, match="immutable"):
            setattr(target, name, None)
    assert msgspec.structs.replace(message, station="t2").station == "t2"
    assert message.station == "t1"


def test_how_a_message_was_framed_does_not_count_when_it_is_compared() -> None:
    made_one = Measured(station="t1", place=Place("hall", 1), values=())
    decoded = wirelake.decode(SENSOR, wirelake.encode(made_one))
    assert decoded.wire_length > 0 == made_one.wire_length
    assert decoded == made_one
    assert decoded != Reset()
    assert decoded != "t1"


def test_a_message_shows_its_fields() -> None:
    shown = repr(Measured(station="t1", place=Place("hall", 1), values=(1.0,)))
    assert shown == "Measured(station='t1', place=Place(room='hall', floor=1), values=(1.0,), note=None)"


def test_a_decoded_message_survives_copying_and_pickling() -> None:
    message = wirelake.decode("ceda", bytes.fromhex("820101"), dialect="ceda4")
    assert copy.copy(message) == message
    again = pickle.loads(pickle.dumps(message))
    assert again == message
    assert again.layout == message.layout


def test_fields_of_a_base_class_come_first() -> None:
    names = [f.name for f in casual.ServiceCallRequest.__wire_fields__]
    assert names[:3] == ["correlation", "execution", "service"]
    assert [f.name for f in dsa.SetResponse.__wire_fields__] == ["request_id", "ack_id", "headers", "body"]


def test_lengths_are_on_the_wire_only() -> None:
    assert casual.Xid(42, b"g", b"q").gtrid == b"g"
    assert not hasattr(casual.Xid(42), "gtrid_length")


def test_the_rows_of_a_tag_table_have_their_names() -> None:
    rows = {row.name: row.code for row in tag_rows(dsa.Headers)}
    assert rows["status"] == 0x00 and rows["target_path"] == 0x80
    assert dsa.Headers().order == ()


def test_absent_and_null_are_two_things() -> None:
    assert dsa.InvokeRequest(request_id=1, ack_id=1).value is UNSET
    assert not UNSET


def test_a_message_belongs_to_one_protocol() -> None:
    with pytest.raises(SpecError, match="Measured already belongs to trial"):
        declare(protocol(Measured))


def test_a_choice_names_settings_with_hyphens() -> None:
    choice = choose("dialect", ceda4=1, ceda4_ws=2)
    assert choice.cases == {"ceda4": 1, "ceda4-ws": 2}


def test_a_refused_protocol_does_not_keep_its_messages() -> None:
    class Again(Message, code=1):
        """A message that is listed twice."""

    with pytest.raises(SpecError):
        declare(protocol(Again, Again))
    assert declare(protocol(Again)).messages == (Again,)


def test_a_cell_is_a_plain_value() -> None:
    from wirelake.spec import Cell

    assert Cell(1, "INT", 5) == Cell(1, "INT", 5)
    with pytest.raises(AttributeError):
        Cell(1, "INT", 5).fid = 2  # type: ignore[misc]
    assert ceda.Publish(topic="T").record == ()


def test_messages_inherit_what_the_class_line_of_a_base_without_code_says() -> None:
    class Reply(Message, kind="response", sent_by="server", head_least=9):
        """A base of replies."""

    class Done(Reply, code=1):
        """Done."""

    class Failed(Reply, code=2, sent_by="both"):
        """Not done."""

    class Refused(Failed, code=3):
        """The base has a code: what it says is its own."""

    said = [
        [cls.__message__[key] for key in ("code", "kind", "sent_by", "head_least")] for cls in (Done, Failed, Refused)
    ]
    assert said == [[1, "response", "server", 9], [2, "response", "both", 9], [3, "event", "both", 0]]


def test_the_messages_of_a_module_are_its_classes_with_a_code_in_order() -> None:
    namespace = {"Message": Message, "Struct": Struct, "Reset": Reset, "number": 7, "Measured": Measured}
    assert messages_in(namespace) == (Reset, Measured)


def test_a_word_that_a_class_line_may_not_say_is_refused() -> None:
    with pytest.raises(SpecError, match="answers"):
        type(Message)("Odd", (Message,), {}, code=1, answers=2)


def test_a_deferred_function_is_imported_when_it_is_called() -> None:
    began = deferred("tests.spec.test_declare_missing", "begin")
    with pytest.raises(ModuleNotFoundError):
        began(None)
    values = [2, 1]
    deferred("heapq", "heapify")(values)
    assert values == [1, 2]
    assert pickle.loads(pickle.dumps(began)).args == began.args


def test_a_computed_value_may_be_annotated() -> None:
    class Annotated(Message, code=1):
        data: bytes = field(text(u8))
        size: int = derived(LengthOf("data"), "its length")

    made = Annotated(data="abc")
    assert made.size == 3
    assert "size" not in Annotated.__struct_fields__
