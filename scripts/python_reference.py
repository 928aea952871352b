"""The page on the public Python names, generated from signatures and docstrings."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Iterator
from typing import Any

WIDTH = 76
HEAD = """\
# Python

The public names, with their docstrings. Options after a `*` are keyword-only. Names that are not here may change
without a note in [the changelog](../CHANGELOG.md). [The cookbook](cookbook.md) and the guides show examples.
"""
GROUPS: dict[str, tuple[str, ...]] = {
    "Messages": (
        "wirelake.decode",
        "wirelake.encode",
        "wirelake.load",
        "wirelake.StreamDecoder",
        "wirelake.StreamDecoder.feed",
        "wirelake.StreamDecoder.finish",
        "wirelake.codec.stream.Decoded",
        "wirelake.codec.stream.Quarantined",
    ),
    "Columns": (
        "wirelake.columnar.decode",
        "wirelake.columnar.decode_stream",
        "wirelake.columnar.default_columns",
        "wirelake.columnar.schema",
    ),
    "Clients": (
        "wirelake.connect",
        "wirelake.live.mb.connect",
        "wirelake.live.mb.MbClient",
        "wirelake.live.mb.MbClient.publish",
        "wirelake.live.mb.MbClient.subscribe",
        "wirelake.live.mb.MbClient.request",
        "wirelake.live.mb.MbClient.respond",
        "wirelake.live.mb.Request",
        "wirelake.live.ceda.connect",
        "wirelake.live.ceda.CedaClient",
        "wirelake.live.ceda.CedaClient.publish",
        "wirelake.live.ceda.CedaClient.subscribe",
        "wirelake.live.ceda.CedaClient.request",
        "wirelake.live.ceda.CedaClient.respond",
        "wirelake.live.ceda.Message",
        "wirelake.live.ceda.Blob",
        "wirelake.live.drive.client.Client.close",
    ),
    "Servers and recording": (
        "wirelake.live.hub.hub.Hub",
        "wirelake.live.hub.hub.default_settings",
        "wirelake.live.hub.hub.load_settings",
        "wirelake.live.hub.hub.read_settings",
        "wirelake.live.tap.proxy.Proxy",
        "wirelake.live.tap.recorder.Recorder",
    ),
    "Spark": (
        "wirelake.spark.register",
        "wirelake.spark.session.session",
        "wirelake.spark.pipeline.ingest",
        "wirelake.spark.pipeline.Report",
        "wirelake.spark.views.views",
        "wirelake.spark.functions.from_wire",
        "wirelake.spark.functions.to_wire",
        "wirelake.spark.functions.schema_of_wire",
    ),
    "Ingest without Spark": (
        "wirelake.ingest.run.ingest",
        "wirelake.ingest.inline_runner.InlineRunner",
    ),
    "Lake": (
        "wirelake.lake.Lake",
        "wirelake.lake.Lake.open",
        "wirelake.lake.Lake.number",
        "wirelake.lake.Lake.tables",
        "wirelake.lake.Lake.dataset",
        "wirelake.lake.Lake.files",
        "wirelake.lake.Lake.inputs",
        "wirelake.lake.Lake.summary",
        "wirelake.lake.Summary",
    ),
    "Report": (
        "wirelake.report.write_report",
        "wirelake.report.collect",
        "wirelake.report.find_conversation",
        "wirelake.report.open_tables",
        "wirelake.report.render",
    ),
    "Traffic": (
        "wirelake.generate.generate",
        "wirelake.generate.write_pcap",
        "wirelake.generate.write_tap",
    ),
    "Errors": (
        "wirelake.errors.WireError",
        "wirelake.errors.DecodeError",
        "wirelake.errors.EncodeError",
        "wirelake.errors.ProtocolError",
        "wirelake.errors.CaptureError",
        "wirelake.errors.LakeError",
        "wirelake.errors.SpecError",
        "wirelake.live.ConnectionFailed",
        "wirelake.live.ConnectionLost",
        "wirelake.live.Refused",
        "wirelake.live.RequestTimeout",
        "wirelake.live.AnswerError",
    ),
}
NOT_CALLED = {
    "wirelake.live.mb.MbClient",
    "wirelake.live.ceda.CedaClient",
    "wirelake.live.ceda.Message",
    "wirelake.lake.Lake",
}
"""Classes whose objects other functions return."""


def python_page() -> str:
    lines = [HEAD]
    for title, names in GROUPS.items():
        lines += [f"## {title}", ""]
        for name in names:
            lines += _entry(name)
    return "\n".join(lines).rstrip("\n") + "\n"


def find(name: str) -> Any:
    """Return what a dotted name stands for; a name in a package wins over its module of that name."""
    first, *rest = name.split(".")
    found: Any = importlib.import_module(first)
    for part in rest:
        if not hasattr(found, part) and inspect.ismodule(found):
            importlib.import_module(f"{found.__name__}.{part}")
        found = getattr(found, part)
    return getattr(found, rest[-1]) if inspect.ismodule(found) else found


def _entry(name: str) -> Iterator[str]:
    found = find(name)
    yield f"### {name}"
    yield ""
    if name not in NOT_CALLED and not (inspect.isclass(found) and issubclass(found, Exception)):
        yield from ("```python", call(name, found), "```", "")
    doc = inspect.getdoc(found) or ""
    if not doc.startswith(f"{getattr(found, '__name__', '')}("):  # as dataclasses without one have it
        yield from described(doc)


def call(name: str, found: Any) -> str:
    """Return the signature, on one line if it fits, else with one line for each parameter."""
    short = ".".join(name.split(".")[-2:]) if _is_method(name) else name.rpartition(".")[2]
    signature = inspect.signature(found)
    parts = list(_parameters(signature, drops_self=_is_method(name) and inspect.isfunction(found)))
    word = "await " if inspect.iscoroutinefunction(found) else ""
    end = (
        ""
        if inspect.isclass(found) or signature.return_annotation in (inspect.Signature.empty, "None")
        else (f" -> {_plain(signature.return_annotation)}")
    )
    line = f"{word}{short}({', '.join(parts)}){end}"
    if len(line) <= WIDTH:
        return line
    return "\n".join([f"{word}{short}(", *(f"    {part}," for part in parts), f"){end}"])


def _is_method(name: str) -> bool:
    return name.split(".")[-2][:1].isupper()


def _parameters(signature: inspect.Signature, drops_self: bool) -> Iterator[str]:
    """Yield each parameter with its type and default; ``*`` and ``/`` where they belong."""
    given = list(signature.parameters.values())[1 if drops_self else 0 :]
    is_after_star = False
    for at, one in enumerate(given):
        if one.kind is one.VAR_POSITIONAL or (one.kind is one.KEYWORD_ONLY and not is_after_star):
            is_after_star = True
            if one.kind is one.KEYWORD_ONLY:
                yield "*"
        yield _parameter(one)
        following = given[at + 1] if at + 1 < len(given) else None
        if one.kind is one.POSITIONAL_ONLY and (following is None or following.kind is not one.POSITIONAL_ONLY):
            yield "/"


def _parameter(one: inspect.Parameter) -> str:
    star = "*" if one.kind is one.VAR_POSITIONAL else "**" if one.kind is one.VAR_KEYWORD else ""
    kind = "" if one.annotation is one.empty else f": {_plain(one.annotation)}"
    if one.default is one.empty:
        return f"{star}{one.name}{kind}"
    default = "..." if " at 0x" in repr(one.default) or "<" in repr(one.default) else repr(one.default)
    return f"{one.name}{kind} = {default}" if kind else f"{one.name}={default}"


def _plain(annotation: Any) -> str:
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    return re.sub(r"\bn\.(?=[A-Z])", "", text)  # as modules call the nodes of declarations


def described(doc: str) -> Iterator[str]:
    """Return a docstring as Markdown: names in backquotes, and examples and indented lines as code."""
    if not doc:
        return
    for paragraph in re.split(r"\n\s*\n", doc.strip()):
        lines = paragraph.splitlines()
        if lines[0].startswith((">>>", "    ")):
            yield from ("```text", *inspect.cleandoc("\n" + paragraph).splitlines(), "```", "")
        else:
            yield from (paragraph.replace("``", "`"), "")
