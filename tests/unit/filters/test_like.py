"""LIKE agrees with SQLite, and is never slow."""

import sqlite3
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from litemq.errors import FilterSyntaxError
from litemq.filters.like import LikePattern
from support.waiting import HANG_S

TEXTS = st.text("ab%_\n!", max_size=12)
DATABASE = sqlite3.connect(":memory:", check_same_thread=False)
DATABASE.execute("PRAGMA case_sensitive_like = ON")


@given(TEXTS, TEXTS)
def test_like_agrees_with_sqlite(text: str, pattern: str) -> None:
    ((expected,),) = DATABASE.execute("SELECT ? LIKE ?", (text, pattern))
    assert LikePattern(pattern).matches(text) == bool(expected)


@given(TEXTS, st.lists(st.sampled_from(["a", "b", "%", "_", "!%", "!_", "!!"]), max_size=8))
def test_escaped_characters_match_themselves(text: str, pieces: list[str]) -> None:
    pattern = "".join(pieces)
    ((expected,),) = DATABASE.execute("SELECT ? LIKE ? ESCAPE '!'", (text, pattern))
    assert LikePattern(pattern, "!").matches(text) == bool(expected)


@pytest.mark.parametrize("pattern", ["!", "!a", "a!"])
def test_an_escape_before_anything_else_is_refused(pattern: str) -> None:
    with pytest.raises(FilterSyntaxError, match="must precede"):
        LikePattern(pattern, "!")


def test_a_long_pattern_is_refused() -> None:
    with pytest.raises(FilterSyntaxError, match="at most 255"):
        LikePattern("a" * 256)


@pytest.mark.parametrize("pattern", ["%a" * 120 + "%b", "%a" * 120 + "%b%"])
def test_no_pattern_is_slow(pattern: str) -> None:
    """Runs in a process: a regular expression such as ``.*a.*a.*a…`` would never end."""
    program = f"from litemq.filters.like import LikePattern; print(LikePattern({pattern!r}).matches('a' * 32_000))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=HANG_S)
    assert done.stdout == "False\n"


def test_a_search_with_wildcards_in_a_long_text_is_unknown() -> None:
    slow = LikePattern("%" + "_" * 250 + "b%")
    assert slow.matches("a" * 1000) is False
    assert slow.matches("a" * 100_000) is None
    assert LikePattern("%b%").matches("a" * 100_000) is False  # without wildcards, a search is quick
    assert LikePattern("a_%").matches("a" * 100_000) is True  # and at the start there is none
    assert LikePattern("%a_a%", max_text=10).matches("a" * 11) is None
