"""``litemq config show``: the effective settings and their origins."""

import json
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from litemq.cli.commands.config import _shown
from litemq.cli.configuration.kinds import TEXT
from litemq.cli.configuration.resolve import ResolvedSetting
from litemq.cli.configuration.setting import Setting
from litemq.cli.main import app
from litemq.errors import ConfigurationError

RUNNER = CliRunner()


def test_values_and_origins(tmp_path: Path) -> None:
    file = tmp_path / "b.toml"
    file.write_text("[network]\nport = 5\n")
    result = RUNNER.invoke(
        app, ["config", "show", "broker", "--config", str(file), "--origin"], env={"LITEMQ_BROKER_HOST": "::1"}
    )
    lines = [line.split() for line in result.stdout.splitlines()]
    assert lines[0] == ["setting", "value", "origin"]
    assert ["network.host", "::1", "LITEMQ_BROKER_HOST"] in lines
    assert ["network.port", "5", f"{file}:", "network.port"] in lines
    assert ["storage.retention", "3d", "default"] in lines
    assert ["network.insecure", "false", "default"] in lines


def test_for_programs() -> None:
    shown = json.loads(RUNNER.invoke(app, ["config", "show", "--format", "json"]).stdout)
    assert shown["nameserver.addresses"] == ["127.0.0.1:9876"]
    assert shown["storage.max_log_size"] == "none"
    with_origin = yaml.safe_load(RUNNER.invoke(app, ["config", "show", "--format", "yaml", "--origin"]).stdout)
    assert with_origin["network.port"] == {"value": 10911, "origin": "default"}


def test_the_file_may_be_named_by_the_environment(tmp_path: Path) -> None:
    file = tmp_path / "b.toml"
    file.write_text("[network]\nport = 5\n")
    shown = json.loads(
        RUNNER.invoke(app, ["config", "show", "--format", "json"], env={"LITEMQ_BROKER_CONFIG": str(file)}).stdout
    )
    assert shown["network.port"] == 5


def test_what_the_program_would_refuse_is_refused() -> None:
    result = RUNNER.invoke(app, ["config", "show"], env={"LITEMQ_BROKER_PORT": "70000"})
    assert isinstance(result.exception, ConfigurationError)


@pytest.mark.parametrize(("value", "shown"), [("hunter2", "(hidden)"), ("", "")])
def test_secrets_are_never_shown(value: str, shown: str) -> None:
    assert _shown(ResolvedSetting(Setting("auth.secret", "secret", TEXT, "", secret=True), value, "default")) == shown
