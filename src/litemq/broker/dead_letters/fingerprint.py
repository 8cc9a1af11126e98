"""The fingerprint of an error: its type and the frames in which it was raised.

Of a Python traceback, the last frames count, as module and function, without line numbers and
directories. Without a traceback, the text of the error counts, without numbers, ids and quoted
parts.
"""

from __future__ import annotations

import re
from hashlib import blake2b
from typing import Final

from litemq.format.dead_letters import UNDECODABLE
from litemq.types import DeadReason

__all__ = ["error_fingerprint"]

_TOP_FRAMES: Final = 3
_DIGEST_BYTES: Final = 6
_MAX_STACK_CHARS: Final = 32 << 10  # the end of a longer stack is enough

_FRAME: Final = re.compile(r'^ *File "([^"\n]{1,1024})", line \d+, in ([^\n]{1,256})$', re.MULTILINE)
_ERROR_TYPE: Final = re.compile(r"[A-Za-z_][\w.]{0,255}(?=:|$|\()")
_LEFT_OUT: Final = (
    (re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"), "<id>"),
    (re.compile(r"0x[0-9a-fA-F]+"), "<n>"),
    (re.compile(r"'[^'\n]*'|\"[^\"\n]*\""), "<text>"),
    (re.compile(r"\b(?=[0-9a-fA-F]*\d)[0-9a-fA-F]{8,}\b"), "<id>"),
    (re.compile(r"\d+(?:\.\d+)?"), "<n>"),
)


def error_fingerprint(reason: DeadReason, detail: str, error: str, stack: str) -> str:
    """Return twelve hexadecimal digits, the same for errors with the same cause."""
    if detail == UNDECODABLE:
        return _digest(UNDECODABLE, _error_type(error))  # the body is the cause, not the frames that noticed it
    frames = _FRAME.findall(stack[-_MAX_STACK_CHARS:])[-_TOP_FRAMES:]
    parts = [f"{_module(path)}:{function}" for path, function in frames] or [_shape(error)]
    named = "" if error or frames else reason.name  # nothing else is known
    return _digest(named, detail, _error_type(error), *parts)


def _error_type(error: str) -> str:
    """Return ``ValueError`` of ``ValueError: bad amount``, without its package."""
    found = _ERROR_TYPE.match(error.lstrip()[:512])
    return found.group().rpartition(".")[2] if found else ""


def _shape(error: str) -> str:
    """Return the first line of an error without the parts that differ between messages."""
    line = error.strip().partition("\n")[0][:512]
    for pattern, left in _LEFT_OUT:
        line = pattern.sub(left, line)
    return line


def _module(path: str) -> str:
    """Return the last two parts of a path, which do not depend on the installation."""
    return "/".join(path.replace("\\", "/").split("/")[-2:])


def _digest(*parts: str) -> str:
    return blake2b("\0".join(parts).encode("utf-8", "surrogatepass"), digest_size=_DIGEST_BYTES).hexdigest()
