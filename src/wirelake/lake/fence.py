"""Create a file that must not exist yet: the fence between two writers on an object store, which has no lock.

The next commit record is put create-only. Whoever comes second is told so by the store itself, however close they were.
pyarrow's file systems have no such put, so S3 is asked through obstore; stores that neither knows are looked at before
they are written, which only notices a writer that has already won.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from ..errors import LakeError
from .store import Store, errors

MAX_BYTES = 64 << 20


def create(store: Store, path: str, data: bytes) -> bool:
    """Publish a file; False if somebody else has published one of this name."""
    if not is_s3(store):
        if store.has_objects and store.kind(path):
            return False
        store.publish(path, data)
        return True
    obstore, bucket = _bucket(store)
    from obstore.exceptions import AlreadyExistsError, BaseError

    try:
        obstore.put(bucket, store.full(path).partition("/")[2], data, mode="create")
    except AlreadyExistsError:
        # The answer to a first put may be lost, and the second then meets what the first has put.
        return store.read(path, MAX_BYTES) == data
    except BaseError as error:
        raise LakeError(store.show(path), f"cannot be written: {str(error).splitlines()[0]}") from error
    return True


def is_s3(store: Store) -> bool:
    return store.shown.startswith("s3:")


def _bucket(store: Store) -> tuple[Any, Any]:
    try:
        import obstore
        from obstore.store import S3Store
    except ModuleNotFoundError:
        reason = "writing to S3 needs obstore, for commits that nobody overwrites: pip install 'wirelake[s3]'"
        raise LakeError(store.shown, reason) from None
    with errors(store.shown, "cannot be opened"):
        return obstore, S3Store(store.root.partition("/")[0], **s3_options(store.shown))


def s3_options(uri: str) -> dict[str, Any]:
    """Return what a URI says of its store; the rest is taken from the environment, as pyarrow does."""
    import os

    parts = urlsplit(uri)
    given = {name: values[-1] for name, values in parse_qs(parts.query).items()}
    options: dict[str, Any] = {}
    if parts.username:
        options |= {"access_key_id": unquote(parts.username), "secret_access_key": unquote(parts.password or "")}
    if region := given.get("region"):
        options["region"] = region
    endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL") or ""
    if override := given.get("endpoint_override"):
        endpoint = override if "://" in override else f"{given.get('scheme', 'https')}://{override}"
    if endpoint:
        options |= {"endpoint": endpoint, "client_options": {"allow_http": endpoint.startswith("http:")}}
    return options
