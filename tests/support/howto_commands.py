"""The commands of a how-to that need a broken cluster: a test runs them there."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Final

__all__ = ["howto_commands"]

_HOWTO: Final = Path(__file__).parents[2] / "docs" / "howto"


def howto_commands(page: str, heading: str, **names: str) -> list[list[str]]:
    """Return the arguments of ``litemq`` in the ``sh`` blocks below ``heading``.

    ``names`` replaces names of the page; there, a ``_`` is a ``-``.
    """
    text = (_HOWTO / page).read_text()
    section = text.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    replaced = {name.replace("_", "-"): own for name, own in names.items()}
    commands = [
        [replaced.get(word, word) for word in shlex.split(line)[1:]]
        for block in re.findall(r"^```sh\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
        for line in block.splitlines()
    ]
    assert commands, f"{page} has no commands below {heading!r}"
    return commands
