"""The files of a program as a power cut may leave them, from a trace of its system calls."""

from __future__ import annotations

import random
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

__all__ = ["TracedFiles", "trace"]

_CALLS: Final = "openat,pwrite64,write,fsync,fdatasync,ftruncate,rename,unlink"
_LINE: Final = re.compile(r"\d+ +(\w+)\((.*)\) += (-?\d+).*")
_TEXT: Final = re.compile(r'"((?:\\x[0-9a-f]{2})*)"')
_FILE: Final = re.compile(r"\d+<((?:\\x[0-9a-f]{2})*)>")


@dataclass
class _File:
    synced: bytes = b""
    unsynced: list[tuple[int, bytes | None]] = field(default_factory=list)  # None: truncated at the offset

    def content(self, keep: float, choose: random.Random) -> bytes:
        """Return the content with each unsynced write kept with the probability ``keep``."""
        data = bytearray(self.synced)
        for offset, written in self.unsynced:
            if choose.random() >= keep:
                continue
            if written is None:
                del data[offset:]
                data.extend(bytes(offset - len(data)))
            else:
                data.extend(bytes(max(0, offset - len(data))))
                data[offset : offset + len(written)] = written
        return bytes(data)


class TracedFiles:
    """The files in one directory after each call of a trace, and the program's ``output``."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._own = "".join(f"\\x{byte:02x}" for byte in bytes(directory))
        self._names: dict[str, _File] = {}
        self._synced_names: dict[str, _File] = {}
        self.output = b""

    def apply(self, calls: str) -> Iterator[str]:
        """Apply each call of a trace to the files, and return its name after that."""
        for line in calls.splitlines():
            found = _LINE.fullmatch(line)
            if found is None or int(found[3]) < 0:
                assert found or self._own not in line, line
                continue
            if self._apply(found[1], found[2]):
                yield found[1]

    def _apply(self, call: str, arguments: str) -> bool:
        texts = [_bytes(text) for text in _TEXT.findall(arguments)]
        opened = _FILE.match(arguments)
        numbers = [int(number) for number in re.findall(r", (\d+)(?=,|$)", arguments)]
        path = Path(_bytes(opened[1]).decode(errors="replace")) if opened else Path(texts[0].decode())
        if call == "openat":
            path = Path(texts[0].decode())
        if call == "write" and arguments.startswith("1<"):
            self.output += texts[0]
            return True
        if path == self._directory and call in ("fsync", "fdatasync"):
            self._synced_names = dict(self._names)
            return True
        if path.parent != self._directory:
            return False
        if call == "openat":
            if "O_CREAT" in arguments:
                self._names.setdefault(path.name, _File())
        elif call in ("fsync", "fdatasync"):
            file = self._names[path.name]
            file.synced, file.unsynced = file.content(1, random.Random()), []
        elif call == "pwrite64":
            self._names[path.name].unsynced.append((numbers[-1], texts[0]))
        elif call == "ftruncate":
            self._names[path.name].unsynced.append((numbers[-1], None))
        elif call == "rename":
            self._names[Path(texts[1].decode()).name] = self._names.pop(path.name)
        elif call == "unlink":
            del self._names[path.name]
        else:
            raise AssertionError(f"{call} of {path}")
        return True

    def cut_power(self, target: Path, keep: float, choose: random.Random) -> None:
        """Write the files to ``target``; each unsynced change is kept with probability ``keep``."""
        target.mkdir()
        names = self._names if choose.random() < keep else self._synced_names
        for name, file in names.items():
            (target / name).write_bytes(file.content(keep, choose))


def _bytes(text: str) -> bytes:
    return bytes.fromhex(text.replace("\\x", ""))


def trace(program: str, folder: Path, *arguments: str) -> str:
    """Run the Python ``program``; return its calls on files, one per line."""
    log = folder / "calls"
    command = ["strace", "-f", "-y", "-xx", "-s", "1000000", "-o", str(log), "-e", f"trace={_CALLS}"]
    subprocess.run([*command, sys.executable, "-c", program, *arguments], check=True, stdout=subprocess.DEVNULL)
    return log.read_text()
