"""What a type checker finds in a declaration; never imported."""

from wirelake.spec import Code, Frame, Message, Protocol, Size, be, field, text, u8
from wirelake.spec.conduct import Introduction, Result, TimeUnit


class Right(Message, code=1, kind="request", answer=2, sent_by="client"):
    number: int = field(be.u32, "all of this is right", role="correlation")


class Kind(Message, code=2, kind="respnse"):  # typo
    number: int = field(be.u32, "its kind is wrong")


class Side(Message, code=3, sent_by="clinet"):  # typo
    number: int = field(be.u32, "its side is wrong")


class Keyword(Message, code=4, answers=3):  # typo
    number: int = field(be.u32, "its keyword is wrong")


class Role(Message, code=5):
    number: int = field(be.u32, "its role is wrong", role="corelation")  # typo
    name: int = field(text(u8), "its type is wrong")  # typo


SIZE = Size("length", be.u16, counts="afer")  # typo
RESULT = Result("eror")  # typo
UNIT = TimeUnit("min")  # typo
HELLO = Introduction({}, "completed")  # typo
RIGHT = Protocol("right", "Right", Frame((Size("length", be.u16, counts="after"), Code("type", u8))), (Right,))
