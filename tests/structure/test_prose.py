"""Docstrings, comments, error messages and ``--help`` use the field's terms, no dropped words."""

import ast
import io
import re
import tokenize
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

SOURCE: Final = Path(__file__).parents[2] / "src" / "litemq"
FILES: Final = sorted(path for path in SOURCE.rglob("*.py") if not path.name.endswith("_pb2.py"))

# Words that hide the actor or replace a term of the field, and what to write instead.
DROPPED: Final = {
    r"(?:un)?told": "name the actor: the broker sends, reports, configures",
    r"anew": "again; 'made anew' is 'rebuilt'",
    r"whoever|whomever": "the caller, the consumer, the reader",
    r"somebody|everybody|nobody|anybody": "the caller, every consumer, no reader",
    r"of which there are": "name the thing and count it",
    r"so (?:many|much) (?:\w+ )?(?:bytes|messages|records|seconds|milliseconds|ms|queues|times)": "name the parameter",
    r"behind (?:everybody|everyone)'s back": "without notice",
    r"(?:is|are|was|were) come across": "found",
    r"stands? (?:in|at|for|there|behind|before)": "is stored in, is at",
    r"room": "capacity, buffer space",
    r"bury|buried|buries|burials?": "dead-letter",
    r"stor(?:y|ies)": "history",
    r"errands?": "background task",
    r"wish(?:es)?": "request",
    r"(?<!dead )(?<!dead-)letters?(?! and digits)": "dead letters",
    r"patience": "deadline",
    r"is (?:asked|said) (?:for|of|by)": "name the actor and use an active verb",
}
DROPPED_WORDS: Final = re.compile("|".join(rf"\b(?:{word})\b" for word in DROPPED), re.IGNORECASE)
# A first line names its subject.
VAGUE_SUBJECTS: Final = re.compile(r"(?:what|whoever|who|those|somebody|it|whether|which)\b", re.IGNORECASE)


def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(), str(path))


def _docstrings(path: Path) -> Iterator[tuple[int, str]]:
    for node in ast.walk(_tree(path)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node)
            if text:
                yield getattr(node, "lineno", 1), text


def _comments(path: Path) -> Iterator[tuple[int, str]]:
    for token in tokenize.generate_tokens(io.StringIO(path.read_text()).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def _raised(path: Path) -> Iterator[tuple[int, str]]:
    """The texts in the arguments of whatever is raised, refused or logged."""
    for node in ast.walk(_tree(path)):
        if isinstance(node, ast.Call) and re.search(
            r"Error$|warning$|info$|error$|refuse|fail", ast.unparse(node.func)
        ):
            for part in (*node.args, *(keyword.value for keyword in node.keywords)):
                for inner in ast.walk(part):
                    if isinstance(inner, ast.Constant) and isinstance(inner.value, str) and " " in inner.value:
                        yield inner.lineno, inner.value


def _dropped(texts: Iterator[tuple[int, str]], path: Path) -> list[str]:
    return [
        f"{path.relative_to(SOURCE)}:{line}: {found[0]!r} in {text[:90]!r}"
        for line, text in texts
        for found in [DROPPED_WORDS.search(re.sub(r"``.*?``|`.*?`", "", text))]
        if found
    ]


@pytest.mark.parametrize("read", [_docstrings, _comments, _raised])
def test_no_dropped_word_is_used(read: Callable[[Path], Iterator[tuple[int, str]]]) -> None:
    found = [line for path in FILES for line in _dropped(read(path), path)]
    assert not found, "\n".join(found)


def test_every_module_names_its_subject_first() -> None:
    first_lines = {path: (ast.get_docstring(_tree(path)) or "").split("\n")[0] for path in FILES}
    vague = [f"{path.relative_to(SOURCE)}: {line}" for path, line in first_lines.items() if VAGUE_SUBJECTS.match(line)]
    assert not vague, "\n".join(vague)


def test_the_help_uses_no_dropped_word() -> None:
    page = (SOURCE.parents[1] / "docs" / "reference" / "cli.md").read_text()
    found = [line for line in page.splitlines() if DROPPED_WORDS.search(re.sub(r"`.*?`", "", line))]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    "text", ["Which is told", "made anew", "nobody waits", "32 KiB of room", "the letters of a topic"]
)
def test_the_list_finds_its_words(text: str) -> None:
    assert DROPPED_WORDS.search(text)


def test_terms_are_no_dropped_words() -> None:
    assert not DROPPED_WORDS.search("dead letters, history, stored records, a mushroom")
