"""Header line -> Python source of a decoder: one regular expression for the whole line."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from ..spec import nodes as n
from ..spec.resolve import Layout, MessageNode
from .compile_fields import Quick, Source, arguments
from .content import read_json

UNSET = msgspec.UNSET


def _look_closely(frame: bytes, length: int) -> None:
    """The decoder where none can be made."""


def compile_line(layout: Layout, line: n.Line) -> Quick:
    some = layout.nodes[0]
    words = [f.wire for f in some.fields if isinstance(f.wire, n.Word)]
    if any(wire.quick is None and (wire.number or wire.parts_most is not None) for wire in words):
        return _look_closely
    if some.body is None or any(not isinstance(v.wire, n.Run) or v.wire.content != "json" for v in some.views):
        return _look_closely
    return _LineSource(layout, line, words, some).compile()


class _LineSource(Source):
    """A decoder for all messages: they differ in their first word, and in which other words they may have."""

    def __init__(self, layout: Layout, line: n.Line, words: list[n.Word[Any]], some: MessageNode) -> None:
        super().__init__(layout)
        self.line, self.words, self.some = line, words, some

    def compile(self) -> Quick:
        head = self.size()
        given = [self.fresh("g") for _ in self.words]
        self.emit(f"e = b.find({self.line.end!r}, {head}, {head + self.line.window})")
        self.emit("if e < 0: return None")
        self.emit(f"m = {self.give('match', self.pattern().fullmatch)}(b[{head}:e].decode())")
        self.emit("if m is None: return None")
        self.emit(f"w, {', '.join(given)}, = m.groups()")
        self.limits(given, head)
        for wire, variable in zip(self.words, given, strict=True):
            self.word(wire, variable)
        values = dict(zip((f.name for f in self.some.fields), given, strict=False))
        self.payload(values)
        makers = self.give("makers", {node.word: node.cls for node in self.layout.nodes})
        given_by = arguments(self.some.cls, values | {"wire_length": "n", "layout": self.give("layout", self.layout)})
        self.emit(f"return {makers}[w]({given_by})")
        return self.made("line")

    def size(self) -> int:
        """The length before the line, if there is one; gives where the line begins."""
        for part in self.layout.frame.parts:
            if isinstance(part, n.Size):
                self.queue_size(part)
        self.flush()
        return self.offset

    def pattern(self) -> re.Pattern[str]:
        separator = re.escape(self.line.separator.decode())
        text = f"({'|'.join(re.escape(node.word) for node in self.layout.nodes)})"
        tail = ""
        for i, wire in enumerate(self.words):
            part = f"{separator}({_uncaptured(wire.quick or wire.pattern)}){'?' if wire.optional else ''}"
            if i + 2 > self.line.fewest:
                text += f"(?:{part}"
                tail += ")?"
            else:
                text += part
        return re.compile(text + tail)

    def limits(self, given: list[str], head: int) -> None:
        """Words may be too long only if the line is at least as long."""
        limited = {
            variable: wire.most for wire, variable in zip(self.words, given, strict=True) if wire.most is not None
        }
        if limited:
            tests = " or ".join(f"len({variable} or '') > {most}" for variable, most in limited.items())
            self.emit(f"if e > {head + min(limited.values())} and ({tests}): return None")

    def word(self, wire: n.Word[Any], variable: str) -> None:
        refusing = {node.word for node in self.layout.nodes if wire.only and node.code not in wire.only}
        if not refusing and not wire.number:
            return
        with self.block(f"if {variable} is not None:"):
            if refusing:
                self.emit(f"if w in {self.give('refusing', frozenset(refusing))}: return None")
            if wire.number:
                self.emit(f"{variable} = int({variable})")
                self.within(wire, variable)
                self.settle_doubts()

    def payload(self, values: dict[str, str]) -> None:
        body = self.some.body
        assert body is not None
        if body.wire.most is not None:
            self.emit(f"if n - e > {body.wire.most + len(self.line.end)}: return None")
        values[body.name] = variable = self.fresh("v")
        self.emit(f"{variable} = b[e + {len(self.line.end)}:]")
        for view in self.some.views:
            if body.wire.prefix:
                self.emit(f"if {variable}.startswith({body.wire.prefix!r}): return None")
            values[view.name] = f"{self.give('read_json', read_json)}({variable}) if {variable} else UNSET"


def _uncaptured(pattern: str) -> str:
    return re.sub(r"(?<!\\)\((?!\?)", "(?:", pattern)
