"""Code blocks and commands in the documents run and print what the documents show."""

import contextlib
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from _pytest.mark import ParameterSet

from support.commands import environment_of_commands, running, up
from support.postgres import postgres

ROOT = Path(__file__).parents[2]
DOCUMENTS = [ROOT / "README.md", ROOT / "README.zh-CN.md", *sorted((ROOT / "docs" / "howto").glob("*.md"))]
CHINESE_PAGES = sorted((ROOT / "docs" / "zh").glob("*.md"))
SPARK = re.compile(r"^from pyspark|^\$ litemq pipeline run", re.MULTILINE)


def _blocks(document: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", document.read_text(), re.MULTILINE | re.DOTALL)


def _document(path: Path) -> ParameterSet:
    """Mark a document that needs Java for the Spark step of CI."""
    return pytest.param(path, id=path.name, marks=[pytest.mark.spark] if SPARK.search(path.read_text()) else [])


@pytest.mark.parametrize("document", [_document(path) for path in DOCUMENTS])
def test_python_blocks_run_and_print_what_their_comments_say(
    document: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The blocks of a document form one program.

    The comment after a ``print`` is its expected output.
    """
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)  # as in an environment that was activated
    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
    program = "\n".join(_blocks(document, "python"))
    assert program
    for name, text in re.findall(
        r'^```python title="([^"]+)"\n(.*?)^```$', document.read_text(), re.MULTILINE | re.DOTALL
    ):
        (tmp_path / name).write_text(text)  # a program of its own
    with _cluster(document, tmp_path) as environment:
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        _check(document, program)


@contextlib.contextmanager
def _cluster(document: Path, folder: Path) -> Iterator[dict[str, str]]:
    """Run the servers that a how-to needs; yield the environment for its code."""
    environment: dict[str, str] = {}
    with contextlib.ExitStack() as stack:
        started = re.search(r"^\$ litemq up(.*)$", document.read_text(), re.MULTILINE)
        if document.parent.name == "howto" and started is not None:
            environment |= stack.enter_context(up(folder, *shlex.split(started[1]), LITEMQ_UP_PORT="0"))[1]
        if "import psycopg\n" in document.read_text():
            environment |= stack.enter_context(postgres())
        yield environment


def _settings() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name.startswith("LITEMQ_")}


def _environment() -> dict[str, str]:
    return environment_of_commands(_settings())


def _check(document: Path, program: str) -> None:
    expected = re.findall(r"print\(.*\)\n?(?:  )?# (.*)", program)
    assert len(expected) == program.count("print(")
    run = subprocess.run(
        [sys.executable, "-c", program], env=_environment(), capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout.splitlines() == expected
    if document.parent.name == "howto":
        _run_commands(document)


def _run_commands(document: Path) -> None:
    """Run the commands of a how-to after its program.

    The line below a command is its expected output; a worker runs until the end.
    """
    with contextlib.ExitStack() as stack:
        for block in _blocks(document, "console"):
            _run_block(block, stack)


def _run_block(block: str, stack: contextlib.ExitStack) -> None:
    for line, following in pairwise([*block.splitlines(), "$ "]):
        if line.startswith("$ litemq ") and not line.startswith("$ litemq up"):
            words = shlex.split(line.removeprefix("$ "))
            if words[1] == "worker":
                worker = stack.enter_context(running(*words[1:], cwd=Path.cwd(), environment=_settings()))
                worker.wait_for(following)
                stack.callback(worker.stop)
            else:
                command = [str(Path(sys.executable).with_name(words[0])), *words[1:]]
                result = subprocess.run(command, env=_environment(), capture_output=True, text=True, check=True)
                assert result.stdout
                if not following.startswith("$ "):
                    assert result.stdout.splitlines()[0] == following


def test_the_first_page_is_the_first_minute() -> None:
    """The commands are those that ``tests/e2e`` runs in a new environment."""
    first, _replicas = _blocks(ROOT / "README.md", "console")  # tests/cluster runs the second one
    assert first.splitlines() == [
        "$ pip install litemq",
        "$ litemq up",
        """$ litemq message send orders '{"id": 1}'""",
        "$ litemq message tail orders",
    ]


def test_both_readmes_say_the_same() -> None:
    """The Chinese README links to a Chinese page if it exists."""
    english, chinese = ((ROOT / name).read_text() for name in ("README.md", "README.zh-CN.md"))
    for page in CHINESE_PAGES:
        english = english.replace(f"(docs/howto/{page.name})", f"(docs/zh/{page.name})")
    for pattern in (r"^```(?:console|python)\n.*?^```$", r"\]\(([^)]*)\)", r"^#+ "):
        first, second = (re.findall(pattern, text, re.MULTILINE | re.DOTALL) for text in (english, chinese))
        first, second = (sorted(item for item in found if not item.startswith("README")) for found in (first, second))
        assert first == second


def test_chinese_and_english_pages_link_to_each_other() -> None:
    assert CHINESE_PAGES
    for chinese in CHINESE_PAGES:
        english = ROOT / "docs" / "howto" / chinese.name
        assert chinese.read_text().splitlines()[2] == f"[English](../howto/{chinese.name})"
        assert english.read_text().splitlines()[2] == f"[中文](../zh/{chinese.name})"


@pytest.mark.parametrize("chinese", CHINESE_PAGES, ids=lambda page: page.name)
def test_chinese_page_has_the_code_and_sections_of_its_english_page(chinese: Path) -> None:
    """Only the code of the English page is run, so the Chinese page must repeat it exactly."""
    english = ROOT / "docs" / "howto" / chinese.name
    fenced = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
    assert fenced.findall(chinese.read_text()) == fenced.findall(english.read_text())
    for marker in (r"^#+ ", r"^\|"):  # the level of each heading, and the rows of tables
        first, second = (
            re.findall(marker, fenced.sub("", page.read_text()), re.MULTILINE) for page in (english, chinese)
        )
        assert first == second


def test_every_link_to_a_file_leads_somewhere() -> None:
    documents = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    assert len(documents) > 20
    for document in documents:
        for target in re.findall(r"\]\((?!https?:)([^)#]+)[^)]*\)", document.read_text()):
            assert (document.parent / target).exists(), f"{document.name} links to {target}"
