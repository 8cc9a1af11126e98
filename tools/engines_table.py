"""Generate ``docs/reference/engines.md``, the features of each engine, from the contract suite.

``--check`` only verifies that the page is up to date.
"""

from __future__ import annotations

import contextlib
import io
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "reference" / "engines.md"

HEAD = """\
# Features of each engine

<!-- Written by tools/engines_table.py: change the contract suite, then run `just reference`. -->

Look up here whether an engine supports a feature. The URL of a client chooses its engine:

| URL | engine |
|---|---|
| `memory://` | A cluster inside the client's process, for [tests](../howto/test-your-code.md). |
| `litemq://host:port` | A [cluster of brokers](../howto/run-a-broker.md). |

The tests in `tests/contract` check every row, and every engine passes them.

- *yes*: the engine supports the feature.
- *not yet*: the call raises `UnsupportedFeatureError`. Nothing is sent or settled.
- *only in a replicated group*: a broker outside of such a group raises `UnsupportedFeatureError`,
  as the contract suite checks. `tests/cluster` tests the feature in groups, which are experimental.

`memory://` keeps its guarantees only while its process lives. It acknowledges durability `disk`
without writing to a disk.
"""


class Capabilities:
    """A pytest plugin that reads the ``capability`` markers of the collected tests."""

    def __init__(self) -> None:
        self.schemes: list[str] = []
        self.sections: dict[str, dict[str, dict[str, str]]] = {}  # section -> capability -> scheme -> cell

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        for item in session.items:
            if isinstance(item, pytest.Function) and hasattr(item, "callspec") and "engine" in item.callspec.params:
                kind: Any = item.callspec.params["engine"]
                self._add(item, kind.scheme)

    def _add(self, item: pytest.Function, scheme: str) -> None:
        if scheme not in self.schemes:
            self.schemes.append(scheme)
        section = (item.module.__doc__ or "").partition(":")[0]
        for marker in item.iter_markers("capability"):
            (name,) = marker.args
            missing = marker.kwargs.get("missing")  # the cells of engines that refuse the call
            cell = "yes" if missing is None else missing.get(scheme, "not yet")
            problem = item.get_closest_marker("xfail")
            if problem is not None:
                cell = f"known problem: {problem.kwargs['reason']}"
            row = self.sections.setdefault(section, {}).setdefault(name, {})
            if row.get(scheme, "yes") == "yes":  # of several tests, the worst result counts
                row[scheme] = cell


def page() -> str:
    """Return the page."""
    found = Capabilities()
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        status = pytest.main(
            ["--collect-only", "-q", "-p", "no:cacheprovider", str(ROOT / "tests" / "contract")], plugins=[found]
        )
    if status != pytest.ExitCode.OK:
        raise SystemExit(f"the contract suite cannot be collected:\n{printed.getvalue()}")
    lines = [HEAD]
    for section, capabilities in found.sections.items():
        lines += [
            f"## {section}",
            "",
            f"| | {' | '.join(f'`{scheme}`' for scheme in found.schemes)} |",
            "|---" * (len(found.schemes) + 1) + "|",
        ]
        for name, row in capabilities.items():
            lines.append(f"| {name} | {' | '.join(row.get(scheme, '') for scheme in found.schemes)} |")
        lines.append("")
    return "\n".join(lines).rstrip() + "\n"


def main() -> int:
    """Write the page, or check it with ``--check``."""
    text = page()
    if "--check" in sys.argv[1:]:
        if not PAGE.exists() or PAGE.read_text() != text:
            sys.stderr.write(f"{PAGE.relative_to(ROOT)} is not up to date: run `just reference`\n")
            return 1
        return 0
    PAGE.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
