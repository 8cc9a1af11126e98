"""The command tree, which is a contract, and errors of one line."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from litemq import __version__
from litemq.__main__ import EXIT_INTERRUPTED
from litemq.bench.suite import SUITES
from litemq.cli.commands import bench as bench_module
from litemq.cli.main import app, run
from litemq.cli.rendering.exit_codes import EXIT_FAILED, EXIT_USAGE
from litemq.errors import InvalidArgumentError
from support.waiting import HANG_S

GOLDEN = Path(__file__).parents[2] / "golden" / "cli.txt"


def _tree(command: Any, path: str) -> list[str]:
    """List each command with its arguments and options, one per line."""
    lines = [path]
    for parameter in command.params:
        is_option = parameter.param_type_name == "option"
        if not getattr(parameter, "hidden", False):
            lines.append("    " + (", ".join(parameter.opts) if is_option else parameter.name.upper()))
    if hasattr(command, "list_commands"):
        context = typer.Context(command, info_name=path)
        for name in sorted(command.list_commands(context)):
            lines += _tree(command.get_command(context, name), f"{path} {name}")
    return lines


def test_the_tree_of_commands_is_a_contract() -> None:
    tree = "\n".join(_tree(typer.main.get_command(app), "litemq")) + "\n"
    assert GOLDEN.read_text() == tree, "if the change is meant, write it to tests/golden/cli.txt and to CHANGELOG.md"


@pytest.mark.parametrize("command", ["litemq", "litemq-admin"])
def test_the_installed_command_tells_its_version(command: str) -> None:
    executable = Path(sys.executable).with_name(command)
    result = subprocess.run([str(executable), "--version"], capture_output=True, text=True, check=True)
    assert result.stdout == f"litemq {__version__}\n"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["broker"], "Run a broker until Ctrl-C or SIGTERM."),
        (["cluster"], "Show the state of a cluster; switch, elect and recover masters"),
    ],
)
def test_the_help_of_a_noun_begins_with_what_it_does(arguments: list[str], says: str) -> None:
    done = CliRunner().invoke(app, [*arguments, "--help"])
    assert done.output.split("\n\n")[1].strip().replace("\n  ", " ").startswith(says)


def test_without_arguments_it_helps() -> None:
    result = CliRunner().invoke(app, [])
    assert "Usage: litemq" in result.output
    assert "Exit codes" in result.output


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["bench", "suite", "nothing"], f"unknown suite 'nothing': choose from {', '.join(sorted(SUITES))}"),
        (["bench", "suite", "format", "--runs", "2"], "'--runs'"),
        (["bench", "suite", "format", "--format", "xml"], "'xml' is not one of"),
        (["message", "send", "orders", "x", "--file", "y"], "give either BODY or --file, not both"),
        (["message", "send", "orders"], "nothing to send"),
        (["up", "--port", "9876"], "9876 is also the NameServer's port"),
        (["nonsense"], "No such command 'nonsense'"),
        (["topc", "list"], "No such command 'topc'; did you mean 'topic'?"),
        (["topic", "lst"], "No such command 'lst'. Did you mean 'list'?"),
        (["topic", "list", "--fromat", "json"], "(Possible options: --format)"),
    ],
)
def test_wrong_usage_says_what_would_be_right(arguments: list[str], says: str) -> None:
    result = CliRunner().invoke(app, arguments, env={"COLUMNS": "200"})
    assert result.exit_code == EXIT_USAGE
    assert says in result.output


def test_an_error_of_ours_is_one_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def fail(name: str, scale: float) -> None:
        raise InvalidArgumentError(f"{name} at [{scale}] cannot be")

    monkeypatch.setattr(bench_module, "load_suite", fail)
    monkeypatch.setattr(sys, "argv", ["litemq", "bench", "suite", "format"])
    with pytest.raises(SystemExit) as exit_:
        run()
    assert exit_.value.code == EXIT_USAGE
    assert capsys.readouterr().err == "error InvalidArgumentError (2): format at [1.0] cannot be\n"


def test_ctrl_c_while_it_loads() -> None:
    program = """
import os, signal, sys
from litemq.__main__ import main

class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == "litemq.cli.main":
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupting())
sys.argv = ["litemq", "--version"]
main()
"""
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (result.returncode, result.stdout, result.stderr) == (EXIT_INTERRUPTED, "", "")


# The command, which says when it has come to a function.
_SAYING = """
import sys
from litemq.__main__ import main
from litemq.bench.suites import format as suite

name = sys.argv.pop(1)
original = getattr(suite, name)

def saying(*arguments, **options):
    setattr(suite, name, original)
    print("here", flush=True)
    return original(*arguments, **options)

setattr(suite, name, saying)
main()
"""


@pytest.mark.parametrize(
    # The full size would need more of the disk than other tests may leave.
    ("function", "options"),
    [("_stored", ["--scale", "0.1"]), ("_rate", ["--scale", "0.001", "--runs", "1000000"])],
)
def test_ctrl_c_ends_at_once_and_quietly(function: str, options: list[str]) -> None:
    """While it prepares its data, and while it measures."""
    command = [sys.executable, "-c", _SAYING, function, "bench", "suite", "format", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "here\n"
            process.send_signal(signal.SIGINT)
            output, errors = process.communicate(timeout=HANG_S)
        finally:
            process.kill()
    assert process.returncode == EXIT_INTERRUPTED
    assert output == ""  # no figures
    assert "Traceback" not in errors


def test_a_reader_that_goes_away_is_no_crash() -> None:
    command = f"{Path(sys.executable).with_name('litemq')} bench suite format --scale 0.001 --format json | head -c 1"
    result = subprocess.run(
        ["/bin/bash", "-c", command], capture_output=True, text=True, check=True, env={**os.environ, "COLUMNS": "80"}
    )
    assert result.stdout == "{"
    assert "Traceback" not in result.stderr


def test_a_full_disk_behind_standard_output_is_one_line() -> None:
    command = f"{Path(sys.executable).with_name('litemq')} --version > /dev/full"
    result = subprocess.run(["/bin/bash", "-c", command], capture_output=True, text=True, check=False)
    assert result.returncode == EXIT_FAILED
    assert result.stderr == "error [Errno 28] No space left on device\n"


def test_a_terminal_without_our_characters_is_no_crash() -> None:
    command = [sys.executable, "-m", "litemq", "bench", "suite", "--help"]
    result = subprocess.run(command, capture_output=True, check=True, env={**os.environ, "PYTHONIOENCODING": "ascii"})
    assert b"--check" in result.stdout


def test_the_environment_does_not_turn_a_command_into_another(tmp_path: Path) -> None:
    variables = ("LITEMQ_VERSION", "LITEMQ__VERSION", "LITEMQ_SHOW_COMPLETION", "LITEMQ_INSTALL_COMPLETION")
    result = CliRunner().invoke(app, ["bench"], env={**dict.fromkeys(variables, "1"), "HOME": str(tmp_path)})
    assert list(tmp_path.iterdir()) == []  # nothing was installed
    assert result.output.startswith("Usage: litemq bench")


def _options(command: Any) -> Iterator[Any]:
    yield from (parameter for parameter in command.params if parameter.param_type_name == "option")
    if hasattr(command, "list_commands"):
        context = typer.Context(command)
        for name in command.list_commands(context):
            yield from _options(command.get_command(context, name))


def test_no_variable_confirms_a_change() -> None:
    confirming = [
        option
        for option in _options(typer.main.get_command(app))
        if {"--yes", "--force", "--accept-loss"} & set(option.opts)
    ]
    assert len(confirming) > 10
    for option in confirming:
        assert (option.envvar, option.allow_from_autoenv) == (None, False)
