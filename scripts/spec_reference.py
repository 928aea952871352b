"""The page of ``wirelake.spec``: every exported name, what it is, and two lines that a test runs."""

from __future__ import annotations

import ast
import dataclasses
import inspect
from collections.abc import Iterator
from typing import Any

from scripts.python_reference import call
from wirelake import decode, spec
from wirelake.spec import Frame, Protocol, Size, be, conduct, declare, field, message

CONDUCT = (
    "Conduct",
    "Selection",
    "When",
    "Part",
    "Limit",
    "TimeUnit",
    "Result",
    "Streams",
    "Introduction",
    "Matching",
    "Pieces",
    "Branches",
)

GROUPS: dict[str, dict[str, str]] = {
    "Protocols, messages, structures": {
        "Protocol": 'Ping = message("Ping", code=1, x=field(u8))\n'
        'declare(Protocol("p", "P", Frame((Code("kind", u8),)), (Ping,))).name',
        "declare": 'made = Protocol("q", "Q", Frame((Size("length", be.u16, counts="after"),)), '
        '(message("Note", code=0, x=field(rest)),))\ndecode(declare(made), b"\\0\\2hi").x',
        "Message": 'Note = message("Note", code=0, x=field(rest))\nissubclass(Note, Message), Note.__message__["name"]',
        "messages_in": 'One = message("One", code=1)\n[cls.__name__ for cls in messages_in({"One": One, "other": 5})]',
        "Struct": 'Point = struct("Point", x=field(u8), y=field(u8))\n'
        'issubclass(Point, Struct), read(nested(Point), b"\\1\\2")',
        "message": 'Ping = message("Ping", code=1, kind="control", x=field(u8))\nPing.__message__["kind"]',
        "struct": 'Pair = struct("Pair", x=field(u8), y=field(u8))\nread(nested(Pair), b"\\1\\2")',
        "OTHER": 'Rest = message("Rest", code=OTHER, kind=field(u8), data=field(rest))\n'
        'decode(declare(Protocol("r", "R", Frame((Code("kind", u8), Until(b"\\n", 9))), (Rest,))), b"\\7hi\\n").kind',
        "Option": 'option = Option(("strict", "lenient"), "strict", "what is refused")\noption.default',
        "Setting": 'setting = Setting("charset")\nsetting.option',
        "choose": 'made = choose("version", v1=u8, v2=be.u16)\nsorted(made.cases)',
        "LifeCycle": 'life = LifeCycle("new", client={"new": {"login": "asked"}}, server={})\nlife.client["new"]',
        "Topics": 'topics = Topics("levels", one="+", rest="#")\ntopics.style',
        "Captured": 'captured = Captured(websocket="message")\ncaptured.websocket',
        "Labels": 'level = Labels("level", {0: "normal", 1: "alarm"})\nlevel.code("alarm")',
        "deferred": 'later = deferred("wirelake.protocols.traffic", "start")\ncallable(later)',
    },
    "The frame": {
        "Frame": 'made = Frame((Size("length", be.u16, counts="after"),))\nframe(made.parts, b"\\0\\2hi")',
        "Ends": 'Line = message("Line", code=0, x=field(text(b"\\n")))\n'
        'decode(declare(Protocol("lines", "", Frame((Magic(b"!"), Ends(80))), (Line,))), b"!hi\\n").x',
        "Size": 'size = Size("length", u8, counts="after", plus=-1)\nframe((size,), b"\\3hi")',
        "Code": 'code = Code("kind", bits(u8, 4, 4))\ncode.wire.width',
        "Kept": 'kept = Kept("transaction")\nkept.name',
        "Magic": 'parts = (Magic(b"PK"), Size("length", u8, counts="after"))\nframe(parts, b"PK\\2hi")',
        "Trailer": 'parts = (Size("length", u8, counts="after"), Trailer(b"\\xce"))\nframe(parts, b"\\3hi\\xce")',
        "Opaque": 'raw = {"raw": Frame((Opaque(4096),))}  # of a message with then="raw" in its class line\n'
        'raw["raw"].parts[0].most',
        "Until": 'parts = (Until(b"\\r\\n", most=80),)\nframe(parts, b"hi\\r\\n")',
        "Head": 'head = Head("head", be.u16, least=4, most=64)\nhead.most',
        "Line": 'line = Line(b" ", b"\\n", window=80, fewest=1, most=3, code="verb", code_rule="verb")\nline.code',
        "Escaped": 'size = Size("length", Escaped(126, be.u16), counts="after")\nframe((size,), b"\\2hi")',
        "Padding": 'padding = Padding(b"\\0\\0", "two zeros behind the message")\npadding.note',
    },
    "Fields": {
        "field": 'Named = struct("Named", who=field(text(u8), "who sends", role="address"))\n'
        'read(nested(Named), b"\\2hi").who',
        "optional": 'Maybe = struct("Maybe", more=optional(u8, when=IfLeft()))\nread(nested(Maybe), b"").more',
        "derived": 'made = derived(LengthOf("payload"), "bytes of the payload")\nmade.how',
        "view": 'made = view(msgpack(None), of="body")\nmade.view_of',
        "length": 'Apart = struct("Apart", n=length(u8, "x"), x=field(sized_by("n")))\nread(nested(Apart), b"\\2hi").x',
        "align": 'Padded = struct("Padded", x=field(u8), pad=align(4))\nread(nested(Padded), b"\\7\\0\\0\\0").x',
        "By": 'Prefix = struct("Prefix", bits=field(u8), to=field(blob(By("bits", per=8))))\n'
        'read(nested(Prefix), b"\\x0c\\xc0\\xa8").to',
        "constant": 'Hello = struct("Hello", mark=constant(b"HI"), x=field(u8))\nread(nested(Hello), b"HI\\7").x',
        "checksum": 'Summed = message("Summed", code=0, x=field(rest), crc=checksum(u8, "xor8"))\n'
        'decode(declare(Protocol("sums", "", Frame((Magic(b"!"), Until(b"\\n", 9))), (Summed,))), b"!hi \\n").x',
        "UNSET": "absent = UNSET\nabsent is UNSET",
    },
    "Conditions": {
        "When": 'Maybe = struct("Maybe", kind=field(u8), x=optional(u8, when=When("kind", one_of=(2, 3))))\n'
        'read(nested(Maybe), b"\\2\\7").x',
        "begins": 'Maybe = struct("Maybe", sign=optional(text(b" "), when=begins(b"+", b"-")), x=field(u8))\n'
        'read(nested(Maybe), b"+on \\7").sign',
        "IfLeft": 'Maybe = struct("Maybe", x=optional(u8, when=IfLeft()))\nread(nested(Maybe), b"\\7").x',
        "With": 'Both = struct("Both", x=optional(u8, when=IfLeft()), y=optional(u8, when=With("x")))\n'
        'read(nested(Both), b"\\1\\2").y',
        "HeadReaches": "condition = HeadReaches(15)\ncondition.size",
    },
    "Numbers": {
        "u8": 'wire = u8\nread(wire, b"\\7")',
        "be": 'wire = be.u16\nread(wire, b"\\1\\2")',
        "le": 'wire = le.i32\nread(wire, b"\\xff\\xff\\xff\\xff")',
        "bits": 'Flags = struct("Flags", high=field(bits(u8, 4, 4)), low=field(bits(u8, 0, 4)))\n'
        'read(nested(Flags), b"\\x21").high',
        "ber": 'wire = ber()\nread(wire, b"\\x82\\1\\0")',
        "compact": 'wire = compact({0xFD: le.u16, 0xFE: le.u32})\nread(wire, b"\\xfd\\0\\1")',
        "varint": 'wire = varint(4)\nread(wire, b"\\xac\\x02")',
        "digits": 'wire = digits(b";", -99, 99)\nread(wire, b"-7;")',
        "within": 'wire = within(u8, 1, 5, "level")\nread(wire, b"\\3")',
        "labelled": 'wire = labelled(u8, Labels("level", {1: "alarm"}))\nread(wire, b"\\1")',
        "fixed_point": 'wire = fixed_point(be.i32, 16)\nread(wire, b"\\0\\1\\x80\\0")',
        "timestamp": 'wire = timestamp(be.u32, "s")\nread(wire, b"\\x6a\\x45\\0\\x40").isoformat()',
        "bool8": 'wire = bool8\nread(wire, b"\\1")',
        "flag8": 'wire = flag8\nread(wire, b"\\5")',
    },
    "Texts and bytes": {
        "text": 'wire = text(b"\\0", most=40)\nread(wire, b"roof\\0")',
        "blob": 'wire = blob(be.u16)\nread(wire, b"\\0\\2hi")',
        "fixed": 'wire = fixed(4)\nread(wire, b"abcd")',
        "uuid": "wire = uuid\nread(wire, bytes(16)).hex()",
        "rest": 'wire = rest\nread(wire, b"what is left")',
        "rest_text": 'wire = rest_text\nread(wire, b"what is left")',
        "sized_by": 'Apart = struct("Apart", n=length(u8, "x"), x=field(sized_by("n")))\n'
        'read(nested(Apart), b"\\1a").x',
        "msgpack": 'wire = msgpack(u8)\nread(wire, b"\\3\\x92\\1\\2")',
        "Run": 'wire = Run(be.u16, "text")\nread(wire, b"\\0\\2hi")',
    },
    "Structures and lists": {
        "nested": 'Point = struct("Point", x=field(u8))\nread(nested(Point), b"\\1").x',
        "choice": 'wire = choice(u8, {1: be.u16, 2: text(u8), 3: None})\nread(wire, b"\\2\\2hi")',
        "Tagged": 'value = Tagged(2, "hi")\nvalue.tag, value.value',
        "many": 'wire = many(be.u16, u8)\nread(wire, b"\\2\\0\\1\\0\\2")',
        "sized": 'wire = sized(u8, many(be.u16, None))\nread(wire, b"\\4\\0\\1\\0\\2")',
    },
    "Header lines": {
        "word": 'wire = word("[a-z]+", "topic")\nwire.pattern',
        "number": 'wire = number("([0-9]+)", "size", 0, 99)\nwire.high',
    },
    "Tables of tags": {
        "TagTable": "made = TagTable\nissubclass(made, Struct)",
        "tag": 'row = tag(0x01, be.u16, frozenset({1}), "who")\nrow.wire.code',
        "flag": 'row = flag(0x10, frozenset({1}), "urgent")\nrow.wire.wire',
        "Tags": "wire = Tags(TagTable, anywhere=True)\nwire.anywhere",
        "OrderOf": 'how = OrderOf("headers")\nhow.field',
    },
    "Numbered cells and bodies": {
        "Cell": 'cell = Cell(7, "INT", 42)\ncell.value',
        "CellType": 'kind = CellType("INT", be.i32)\nkind.name',
        "Cells": 'wire = Cells(le.u16, 4, 1, 7, 1, 4094, (CellType("NONE", None),))\nwire.id_max',
        "Form": "form = Form(3, Struct, first=True)\nform.size",
        "Signature": 'wire = Signature("record", 9, 1, (Form(3, Struct, first=True),))\nwire.fid',
        "Body": "wire = Body(most=1 << 20)\nwire.most",
    },
    "Derived values": {
        "FrameLength": "how = FrameLength()\nhow.less",
        "PayloadLength": "how = PayloadLength()\nhow",
        "LengthOf": 'how = LengthOf("payload")\nhow.field',
        "Lookup": 'how = Lookup("headers", "content-length", number=True)\nhow.key',
        "AtLeast": 'how = AtLeast("timeout", 1)\nhow.limit',
        "Present": 'how = Present("value")\nhow.field',
        "Empty": 'how = Empty("name")\nhow.field',
        "Wide": "how = Wide(126)\nhow.limit",
        "Masked": "how = Masked()\nhow",
        "SumLimit": 'limit = SumLimit(("a", "b"), 128, "both_limit")\nlimit.most',
    },
}
"""Two lines for each name; the value of the second is shown."""


def exported() -> list[str]:
    """Return the names that ``wirelake.spec`` exports."""
    lines = inspect.getsource(spec).splitlines()
    return [line.rsplit(" ", 1)[1] for line in lines if line.startswith("from ")]


def read(wire: Any, data: bytes) -> Any:
    """Return what these bytes are as the only field of a message."""
    only = message("Only", code=0, x=field(wire))
    protocol = declare(Protocol("reference", "", Frame((Size("length", be.u32, counts="after"),)), (only,)))
    return decode(protocol, len(data).to_bytes(4, "big") + data).x


def frame(parts: tuple[Any, ...], data: bytes) -> Any:
    """Return the payload of a frame that has these parts."""
    only = message("Only", code=0, x=field(spec.rest))
    return decode(declare(Protocol("reference", "", Frame(parts), (only,))), data).x


def run(example: str) -> str:
    """Run the two lines; return how the value of the second looks."""
    first, second = example.split("\n")
    known = {name: getattr(spec, name) for name in exported()}
    known |= {"read": read, "frame": frame, "decode": decode}
    exec(first, known)
    return repr(eval(second, known)).replace(f"{__name__}.", "")


def spec_page() -> str:
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield "# The declaration language\n"
    yield "Every name of `wirelake.spec`, with its arguments and two lines of example, and those of a conduct."
    yield "[A protocol of your own](own-protocol.md) is the way in: it declares one step by step, and then lists"
    yield "how to say what protocols do.\n"
    yield "To keep examples short, `read(wire, data)` reads bytes as the only field of a message, and"
    yield "`frame(parts, data)` gives the payload of a frame.\n"
    for group, names in GROUPS.items():
        yield f"## {group}\n"
        for name, example in names.items():
            yield f"### `{name}`\n"
            if is_called(getattr(spec, name)):
                yield f"```python\n{call(f'spec.{name}', getattr(spec, name))}\n```\n"
            if said := _said(name):
                yield f"{said}\n"
            yield f"```text\n{example}\n# {run(example)}\n```\n"
    yield "## Conduct\n"
    yield "The names of `wirelake.spec.conduct`; [the guide](own-protocol.md#conduct) shows them at work. A class"
    yield "that is a `Selection` has its arguments too: they say which messages it is about.\n"
    for name in CONDUCT:
        yield from _conduct_lines(getattr(conduct, name))


def is_called(thing: Any) -> bool:
    """Return whether the signature of a name tells its arguments."""
    is_record = dataclasses.is_dataclass(thing) and isinstance(thing, type)
    return bool(inspect.isfunction(thing) or (is_record and dataclasses.fields(thing)))


def _conduct_lines(cls: Any) -> Iterator[str]:
    """Say what a class of the conduct is for, and each of its arguments."""
    base = cls.__bases__[0].__name__
    yield f"### `{cls.__name__}`" + (f", a `{base}`" if base != "object" else "") + "\n"
    yield f"{inspect.cleandoc(cls.__doc__).replace('``', '`')}\n"
    lines = list(_argument_lines(cls))
    if lines:
        yield "\n".join(lines) + "\n"


def _argument_lines(cls: Any) -> Iterator[str]:
    """Return the arguments that a class itself declares, with their types, and the texts behind them."""
    [made] = ast.parse(inspect.getsource(cls)).body
    assert isinstance(made, ast.ClassDef)
    for one, following in zip(made.body, [*made.body[1:], None], strict=True):
        if isinstance(one, ast.AnnAssign):
            said = ""
            if isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant):
                said = f": {' '.join(str(following.value.value).split())}"
            default = "" if one.value is None else f" = {ast.unparse(one.value)}"
            yield f"- `{ast.unparse(one.target)}: {ast.unparse(one.annotation)}{default}`{said.replace('``', '`')}"


def _said(name: str) -> str:
    """Return the first sentence of what is said about a name."""
    thing = getattr(spec, name)
    own = thing.__doc__ if inspect.isclass(thing) or inspect.isfunction(thing) else ""
    first = (own or "").strip().split("\n\n")[0].replace("\n", " ")
    return "" if first.startswith(f"{name}(") else " ".join(first.split())
