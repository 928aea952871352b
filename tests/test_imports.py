"""Which room may import which, what the first import costs, and what it does not load."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from wirelake.protocols import BUILT_IN

SOURCE = Path(__file__).resolve().parents[1] / "src" / "wirelake"

MAY_IMPORT = {
    "errors": set(),
    "spec": {"errors"},
    "protocols": {"errors", "spec"},
    "codec": {"errors", "spec", "protocols"},
    "kernels": set(),
    "columnar": {"errors", "spec", "protocols", "codec", "kernels"},
    "capture": {"errors", "spec", "protocols", "codec", "kernels", "columnar"},
    "web": set(),
    "live": {"errors", "spec", "protocols", "codec", "capture", "web"},
    "facts": {"errors", "spec"},
    "traffic": {"errors", "spec", "protocols", "codec", "generate"},
    "generate": {"errors", "spec", "protocols", "codec", "capture"},
    "lake": {"errors"},
    "gold": {"errors", "spec", "protocols", "kernels", "columnar", "capture"},
    "ingest": {"errors", "spec", "protocols", "codec", "kernels", "columnar", "capture", "generate", "gold", "lake"},
    "spark": {
        "errors",
        "spec",
        "protocols",
        "codec",
        "kernels",
        "columnar",
        "capture",
        "generate",
        "gold",
        "lake",
        "ingest",
    },
    "report": {"errors", "spec", "protocols", "codec", "columnar", "capture", "gold", "lake", "web"},
    "demo": {
        "errors",
        "spec",
        "protocols",
        "codec",
        "capture",
        "live",
        "generate",
        "lake",
        "ingest",
        "spark",
        "report",
    },
    "cli": {
        "errors",
        "spec",
        "protocols",
        "codec",
        "columnar",
        "capture",
        "live",
        "generate",
        "lake",
        "ingest",
        "spark",
        "web",
        "report",
        "demo",
    },
}
"""Rooms further down know those further up the hall, never the other way round."""

UPWARD = {("spec/declare.py", "codec")}
"""Imports inside a function that go against the direction: a message offers ``to_json`` of the codec as its own."""


def modules() -> list[Path]:
    return sorted(path for path in SOURCE.rglob("*.py") if path.parent != SOURCE or path.stem == "errors")


def room_of(path: Path) -> str:
    """Traffic and facts of a protocol lie with it, are loaded when they are called, and count as rooms of their own."""
    parts = path.relative_to(SOURCE).parts
    part = path.stem.partition("_")[0]
    return part if parts[0] == "protocols" and part in ("traffic", "facts") else parts[0].removesuffix(".py")


def imported_rooms(path: Path, node: ast.AST) -> Iterator[str]:
    """The rooms that an import statement enters."""
    depth = len(path.relative_to(SOURCE).parts)
    match node:
        case ast.ImportFrom(level=0, module=module) if module is not None:
            first, _, rest = module.partition(".")
            if first == "wirelake":
                yield rest.partition(".")[0]
        case ast.ImportFrom(level=level, module=module, names=names) if level == depth:
            if module is None:
                yield from (alias.name for alias in names)
            else:
                yield module.partition(".")[0]
        case ast.ImportFrom(level=level) if level > depth:
            raise AssertionError(f"{path} imports from outside the package")
        case ast.Import(names=names):
            yield from (alias.name.split(".")[1] for alias in names if alias.name.startswith("wirelake."))
        case _:
            pass


def for_type_checkers(tree: ast.Module) -> set[ast.AST]:
    """What stands under ``if TYPE_CHECKING``."""
    found: set[ast.AST] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            found |= set(ast.walk(node))
    return found


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_go_one_way(path: Path) -> None:
    room = room_of(path)
    tree = ast.parse(path.read_text(encoding="utf-8"))
    ignored = for_type_checkers(tree)
    for node in ast.walk(tree):
        if node in ignored:
            continue
        for entered in imported_rooms(path, node):
            here = path.relative_to(SOURCE).as_posix()
            if entered != room and (here, entered) not in UPWARD and (SOURCE / entered).exists():
                assert entered in MAY_IMPORT[room], f"{here} line {node.lineno}: {room} must not know {entered}"  # type: ignore[attr-defined]


def test_every_room_has_its_place() -> None:
    rooms = {path.name for path in SOURCE.iterdir() if path.is_dir() and list(path.glob("*.py"))}
    assert rooms <= set(MAY_IMPORT)


def third_party(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            found.add(node.module.partition(".")[0])
    return found


def test_only_the_kernels_import_numba_and_they_import_no_other_room() -> None:
    users = {room_of(path) for path in modules() if "numba" in third_party(path)}
    assert users == {"kernels"}
    for path in (SOURCE / "kernels").glob("*.py"):
        assert not {"wirelake", "pyarrow"} & third_party(path)


def test_only_the_spark_room_and_the_modules_that_spark_looks_for_import_pyspark() -> None:
    users = {room_of(path) for path in modules() if "pyspark" in third_party(path)}
    assert users == {"spark"}
    shims = sorted(SOURCE.parent.glob("pyspark_wirelake_*.py"))
    assert [path.stem for path in shims] == sorted(f"pyspark_wirelake_{name}" for name in (*BUILT_IN, "wire"))


def test_spec_protocols_and_codec_need_no_arrow_and_no_numpy() -> None:
    for path in modules():
        if room_of(path) in ("errors", "spec", "protocols", "codec"):
            assert not {"numpy", "pyarrow", "numba", "pyspark", "asyncio", "click"} & third_party(path), path


LIVE = SOURCE / "live"
AROUND_SESSIONS = ("api", "handlers", "key_file", "service", "message_json")
"""Modules of a live protocol that are not its session: what a user awaits or lets run, key files, what a hub serves,
what a verb prints.
"""


def sessions() -> list[Path]:
    """The modules that make up the sessions of live protocols."""
    protocols = [path for name in BUILT_IN for path in (LIVE / name).glob("*.py") if path.stem not in AROUND_SESSIONS]
    return [*(LIVE / "core").glob("*.py"), *protocols]


def test_only_what_drives_sessions_knows_the_event_loop() -> None:
    users = {path for path in modules() if "asyncio" in third_party(path)}
    assert {room_of(path) for path in users} <= {"live", "cli", "demo"}
    assert not users & set(sessions())


def test_sessions_know_nothing_but_the_core_and_themselves() -> None:
    for path in sessions():
        tree = ast.parse(path.read_text(encoding="utf-8"))
        ignored = for_type_checkers(tree)
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.level == 2 and node not in ignored:
                assert (node.module or "").startswith(("core", "storage.database")), f"{path} line {node.lineno}"


OUTSIDE = {"asyncio", "os", "secrets", "select", "signal", "socket", "ssl", "subprocess", "threading", "time"}
UNFORESEEN = {"urandom", "uuid1", "uuid4", "SystemRandom", "utcnow"}


def test_sessions_know_no_clock_no_socket_and_no_chance_of_their_own() -> None:
    for path in sessions():
        assert not OUTSIDE & third_party(path), path
        tree = ast.parse(path.read_text(encoding="utf-8"))
        used = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
        imported = {node.name for node in ast.walk(tree) if isinstance(node, ast.alias)}
        assert not UNFORESEEN & (used | imported), path


# --- in a fresh interpreter


def loaded_by(code: str) -> set[str]:
    """The modules that a new interpreter has loaded after running this."""
    script = f"{code}\nimport sys, json\nprint(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout.splitlines()[-1]))


HEAVY = {"pyspark", "numba", "numpy", "pyarrow", "asyncio", "msgpack", "msgspec", "click", "pandas"}


def test_import_wirelake_loads_nothing_else() -> None:
    loaded = loaded_by("import wirelake")
    assert {name for name in loaded if name.partition(".")[0] == "wirelake"} == {"wirelake"}
    assert not HEAVY & loaded


def test_protocols_load_on_first_use() -> None:
    before = loaded_by("import wirelake\nwirelake.decode")
    assert not {f"wirelake.protocols.{name}" for name in BUILT_IN} & before
    after = loaded_by("import wirelake\nwirelake.decode('ceda', bytes.fromhex('820101'))")
    assert {name for name in BUILT_IN if f"wirelake.protocols.{name}" in after} == {"ceda"}
    assert not {"numba", "numpy", "pyarrow", "pyspark", "asyncio", "click"} & after


def test_the_command_line_loads_numba_only_for_columns() -> None:
    assert not {"numba", "numpy", "pyarrow", "pyspark"} & loaded_by("import wirelake.cli")


def test_the_report_needs_no_spark() -> None:
    loaded = loaded_by("from wirelake.report import collect, find_conversation, render, write_report")
    assert not {"pyspark", "numba"} & loaded


def test_what_records_needs_no_columns() -> None:
    assert not {"numba", "numpy", "pyarrow", "pyspark"} & loaded_by("import wirelake.live.tap.proxy")


def test_import_wirelake_is_quick() -> None:
    """Below 0.1 s on an idle machine; the limit here leaves room for a busy one."""
    times = []
    for _ in range(5):
        start = time.perf_counter()
        subprocess.run([sys.executable, "-c", "import wirelake"], check=True)
        whole = time.perf_counter() - start
        start = time.perf_counter()
        subprocess.run([sys.executable, "-c", "pass"], check=True)
        times.append(whole - (time.perf_counter() - start))
    print(f"import wirelake: {min(times):.3f} s")
    assert min(times) < 0.3


def test_an_unknown_name_is_refused_as_python_does_it() -> None:
    import wirelake

    with pytest.raises(AttributeError, match="module 'wirelake' has no attribute 'nonsense'"):
        _ = wirelake.nonsense
    assert set(wirelake.__all__) <= set(dir(wirelake)) | {
        "columnar", "StreamDecoder", "connect", "decode", "encode", "load",
    }  # fmt: skip
