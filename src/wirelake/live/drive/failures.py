"""Failures of the system in words."""

from __future__ import annotations

import os
import re
import ssl

from ..core.address import Address, show_address


def explain(error: BaseException) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        return f"TLS failed: {error.reason or error}"
    if isinstance(error, OSError) and error.errno is not None and error.errno > 0:
        return os.strerror(error.errno).lower()
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    numbers = set(re.findall(r"\[Errno (\d+)\]", str(error)))  # of several addresses of one name
    if len(numbers) == 1:
        return os.strerror(int(numbers.pop())).lower()
    return str(error) or type(error).__name__


def explain_listening(error: OSError, address: Address) -> str:
    reason = explain(error).lower()
    if isinstance(error, FileNotFoundError | PermissionError) and error.filename:
        return f"cannot read {error.filename}: {reason}"
    return f"cannot listen on {show_address(address)}: {reason}"
