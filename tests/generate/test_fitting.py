"""Lengths in the header of drawn messages say what follows them, whichever field it is that says it."""

from __future__ import annotations

from random import Random

import pytest

from wirelake import load
from wirelake.codec.encoder import encode_frame
from wirelake.errors import EncodeError
from wirelake.generate.fitting import fitted
from wirelake.generate.values import random_message
from wirelake.spec.resolve import layout

COAP = load("tests/codec/public/coap_tcp.py:PROTOCOL")
SIZES = {0: (0, None, None), 12: (12, None, None), 13: (13, 0, None), 268: (13, 255, None), 269: (14, None, 0)}


@pytest.mark.parametrize("size", [*SIZES, 300, 70_000])
def test_a_length_moves_to_the_field_that_can_hold_it(size: int) -> None:
    made = layout(COAP)
    node = made.named("get")
    assert node is not None
    # An empty option list ends with 0xff, so that the payload may have any size; without a payload there is none.
    options = () if not size else (_end_of_options(),)
    message = node.cls(short=0, token_size=0, token=b"ab", options=options, payload=b"x" * max(0, size - 1))
    with pytest.raises(EncodeError):
        encode_frame(made, message)
    good = fitted(made, node, message)
    assert good.token_size == 2 and len(encode_frame(made, good)) > size
    if size in SIZES:
        assert (good.short, good.size8, good.size16) == SIZES[size]


def _end_of_options() -> object:
    cls = next(f.wire.element.struct for f in COAP.messages[0].__wire_fields__ if f.name == "options")
    return cls(delta=15, size=15, delta8=None, delta16=None, size8=None, size16=None, value=None)


def test_what_has_no_such_length_stays_as_it_is() -> None:
    made = layout(load("casual"))
    for node in made.messages.values():
        message = random_message(made, node, Random(1))
        assert fitted(made, node, message) is message
