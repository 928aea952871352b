"""Where the fields are that have roles: the paths of their columns, message by message."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from . import nodes as n

Path = tuple[str, ...]


@dataclass(frozen=True)
class Place:
    """Where a role is: a path of columns, and the messages (by their place in the protocol) whose role it is."""

    path: Path
    messages: tuple[int, ...]
    unit: str = ""


def places(protocol: n.Protocol) -> dict[n.Role, tuple[Place, ...]]:
    """Return the places of each role of a protocol."""
    found: dict[n.Role, dict[tuple[Path, str], list[int]]] = {}
    for which, cls in enumerate(protocol.messages):
        for path, field in _with_roles(cls.__wire_fields__, ()):
            assert field.role is not None
            found.setdefault(field.role, {}).setdefault((path, field.unit), []).append(which)
    return {
        role: tuple(Place(path, tuple(messages), unit) for (path, unit), messages in by_path.items())
        for role, by_path in found.items()
    }


def field_with(protocol: n.Protocol, message: str, role: n.Role) -> n.Field | None:
    """Return the field of a message that has this role."""
    for cls in protocol.messages:
        if cls.__message__["name"] == message:
            return next((field for _, field in _with_roles(cls.__wire_fields__, ()) if field.role == role), None)
    return None


def label(protocol: n.Protocol, message: str, role: n.Role, value: str) -> str:
    """Return the declared name of a value of the field with this role; the value itself if it has none."""
    field = field_with(protocol, message, role)
    wire = field.wire.wire if field is not None and isinstance(field.wire, n.Tag) else field and field.wire
    labels = getattr(wire, "labels", None)
    try:
        return labels.names.get(int(value), value) if labels is not None else value
    except ValueError:
        return value


def _with_roles(fields: tuple[n.Field, ...], above: Path) -> Iterator[tuple[Path, n.Field]]:
    for field in fields:
        path = (*above, field.column or field.key)
        if field.role is not None:
            yield path, field
        elif isinstance(field.wire, n.Nested | n.Tags):
            yield from _with_roles(field.wire.struct.__wire_fields__, path)
