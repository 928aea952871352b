"""All files of a lake, whatever it says about them."""

from __future__ import annotations

from pyarrow import fs

from wirelake.lake.store import Store


def tree(store: Store, path: str) -> list[str]:
    """The files below a directory, as paths in the lake."""
    selector = fs.FileSelector(store.full(path), allow_not_found=True, recursive=True)
    found = [info for info in store.files.get_file_info(selector) if info.is_file]
    return sorted(info.path[len(store.root) + 1 :] for info in found)
