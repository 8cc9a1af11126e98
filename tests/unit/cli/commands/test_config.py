"""``litemq config``: the effective settings and their origins, and the written file."""

import json
import os
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from litemq.cli.commands.config import _shown
from litemq.cli.configuration.kinds import TEXT
from litemq.cli.configuration.resolve import ResolvedSetting, resolve
from litemq.cli.configuration.setting import Setting
from litemq.cli.configuration.tables import TABLES
from litemq.cli.main import app
from litemq.errors import ConfigurationError, InvalidArgumentError

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


@pytest.mark.parametrize("program", TABLES)
def test_the_written_file_has_every_setting_and_is_the_defaults(program: str, tmp_path: Path) -> None:
    table, file = TABLES[program], tmp_path / "new.toml"
    result = CliRunner().invoke(app, ["config", "init", program, "--output", str(file)])
    assert (result.exit_code, result.output) == (0, f"wrote {file}\n")
    assert CliRunner().invoke(app, ["config", "init", program]).output == file.read_text()
    chosen = resolve(table, flags={}, environment={}, file=file)
    assert {field: one.value for field, one in chosen.items()} == table.defaults
    for field, one in chosen.items():
        assert one.origin != "default" or table.defaults[field] is None
        assert one.setting.help in " ".join(file.read_text().replace("\n#", "").split())
        assert table.variable(one.setting) in file.read_text()


def test_a_file_is_not_overwritten(tmp_path: Path) -> None:
    file = tmp_path / "broker.toml"
    file.write_text("mine")
    result = CliRunner().invoke(app, ["config", "init", "broker", "--output", str(file)])
    assert isinstance(result.exception, InvalidArgumentError)
    assert str(result.exception) == f"{file} exists: choose another --output, or remove the file"
    assert file.read_text() == "mine"


@pytest.mark.parametrize("program", TABLES)
@pytest.mark.parametrize("more", [[], ["--origin"]])
def test_shown_as_toml_it_can_be_read_back(program: str, more: list[str], tmp_path: Path) -> None:
    environment = {
        "LITEMQ_BROKER_RETENTION": "none",
        "LITEMQ_BROKER_NAMESERVER": "a:1,b:2",
        "LITEMQ_BROKER_ZONE": 'a "zone"\\',
        "LITEMQ_NAMESERVER_HEARTBEAT_INTERVAL": "1500ms",
        "LITEMQ_CLIENT_DURABILITY": "disk",
        "LITEMQ_ARCHIVE_TABLE": "/lake",
        "LITEMQ_ARCHIVE_PARSED": "orders=variant; a.b=id bigint, x double",
    }
    result = CliRunner().invoke(app, ["config", "show", program, "--format", "toml", *more], env=environment)
    assert result.exit_code == 0, result.exception
    file = tmp_path / "shown.toml"
    file.write_text(result.output)
    table = TABLES[program]
    expected = resolve(table, flags={}, environment={**os.environ, **environment})
    found = resolve(table, flags={}, environment={}, file=file)
    assert {field: one.value for field, one in found.items()} == {field: one.value for field, one in expected.items()}
