"""Precedence of settings: flag, environment, TOML, default; unknown keys raise."""

from pathlib import Path

import pytest

from litemq.cli.configuration.resolve import build, resolve
from litemq.cli.configuration.setting import Table
from litemq.cli.configuration.tables import BROKER, CLIENT, NAMESERVER, TABLES
from litemq.errors import ConfigurationError
from litemq.server.broker_config import BrokerConfig

ROOT = Path(__file__).parents[4]


def _file(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "broker.toml"
    file.write_text(text)
    return file


def test_each_value_comes_from_the_first_that_says_it(tmp_path: Path) -> None:
    file = _file(tmp_path, '[network]\nport = 1\nhost = "localhost"\n[storage]\nretention = "1d"\n')
    environment = {"LITEMQ_BROKER_PORT": "2", "LITEMQ_BROKER_HOST": "127.0.0.2"}
    chosen = resolve(BROKER, flags={"port": "3", "host": None}, environment=environment, file=file)
    found = {
        field: (chosen[field].value, chosen[field].origin) for field in ("port", "host", "retention_ms", "broker_id")
    }
    assert found == {
        "port": (3, "--port"),
        "host": ("127.0.0.2", "LITEMQ_BROKER_HOST"),
        "retention_ms": (86_400_000, f"{file}: storage.retention"),
        "broker_id": ("broker-1", "default"),
    }


def test_nothing_said_is_the_default() -> None:
    assert build(BROKER, resolve(BROKER, flags={}, environment={})) == BrokerConfig()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[network]\nprot = 1", "network.prot: unknown setting; did you mean network.port?"),
        ("port = 1", "port: unknown setting; did you mean network.port?"),
        ("[storage]\nflushmode = 'sync'", "did you mean storage.flush_mode?"),
        ("[storge]\ndata_path = 'x'", "storge.data_path: unknown setting; did you mean storage.data_path?"),
        ("[zzz]", "zzz: unknown setting. Known settings: broker_id"),
        ("[network]\nport = '10911a'", 'network.port: write a whole number, not "10911a"'),
        ("network = 1", "network: unknown setting"),
        ("[broker_id]\nx = 1", "broker_id.x: unknown setting; did you mean broker_id?"),
        ("[shutdown]\ntimeout = 30", "shutdown.timeout: write a duration with its unit"),
        ("port = ", "is not valid TOML: Invalid value (at end of document)"),
    ],
)
def test_an_error_names_the_file_the_key_and_what_was_meant(tmp_path: Path, text: str, says: str) -> None:
    file = _file(tmp_path, text)
    with pytest.raises(ConfigurationError) as caught:
        resolve(BROKER, flags={}, environment={}, file=file)
    assert str(caught.value).startswith(str(file))
    assert says in str(caught.value)


def test_a_file_that_is_not_there() -> None:
    with pytest.raises(ConfigurationError, match=r"cannot read missing\.toml: No such file"):
        resolve(BROKER, flags={}, environment={}, file=Path("missing.toml"))


def test_a_refused_value_is_reported_with_its_origin() -> None:
    with pytest.raises(ConfigurationError, match=r"LITEMQ_BROKER_PORT: network\.port=70000: choose"):
        build(BROKER, resolve(BROKER, flags={}, environment={"LITEMQ_BROKER_PORT": "70000"}))
    with pytest.raises(ConfigurationError, match="--port: write a whole number"):
        resolve(BROKER, flags={"port": "x"}, environment={})


def test_two_refused_values_are_reported_with_both_origins(tmp_path: Path) -> None:
    file = tmp_path / "broker.toml"
    file.write_text("[storage]\ndisk_clean_percent = 80\n")
    chosen = resolve(BROKER, flags={}, environment={"LITEMQ_BROKER_DISK_REFUSE_PERCENT": "50"}, file=file)
    origins = rf"{file}: storage\.disk_clean_percent and LITEMQ_BROKER_DISK_REFUSE_PERCENT: "
    with pytest.raises(ConfigurationError, match=origins):
        build(BROKER, chosen)


@pytest.mark.parametrize(
    ("table", "environment", "says"),
    [
        (BROKER, {"LITEMQ_BROKER_RETENTION": "0"}, "storage.retention=0: choose a positive number"),
        (
            BROKER,
            {"LITEMQ_BROKER_FILE_SIZE": "8KiB"},
            "storage.file_size=8KiB: choose a multiple of 8 of at least 4160KiB",
        ),
        (NAMESERVER, {"LITEMQ_NAMESERVER_HEARTBEAT_INTERVAL": "1ms"}, "heartbeat.interval=1ms: choose 50ms … 1h"),
        (
            CLIENT,
            {"LITEMQ_CLIENT_REQUEST_TIMEOUT": "40s"},
            (
                "connection.request_timeout=40s is longer than send.delivery_timeout=30s: choose a shorter "
                "connection.request_timeout or a longer send.delivery_timeout"
            ),
        ),
        (
            CLIENT,
            {"LITEMQ_CLIENT_MAX_BATCH_SIZE": "8MiB", "LITEMQ_CLIENT_BUFFER_SIZE": "1MiB"},
            "most send.buffer_size=1MiB",
        ),
    ],
)
def test_a_refused_value_is_named_and_written_as_in_the_file(
    table: Table, environment: dict[str, str], says: str
) -> None:
    with pytest.raises(ConfigurationError) as caught:
        build(table, resolve(table, flags={}, environment=environment))
    assert says in str(caught.value)


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
def test_the_file_in_configs_has_every_key_and_can_be_used(table: Table) -> None:
    file = ROOT / "configs" / f"{table.program}.toml"
    chosen = resolve(table, flags={}, environment={}, file=file)
    build(table, chosen)
    text = file.read_text()
    for one in chosen.values():
        assert one.origin != "default" or f"# {one.setting.key.rpartition('.')[2]} = " in text, one.setting.key


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
def test_every_field_is_a_setting_and_every_name_is_used_once(table: Table) -> None:
    assert sorted(setting.field for setting in table.settings) == sorted(
        [*table.config_type.__dataclass_fields__, *table.other_defaults]
    )
    for names in (
        [s.key for s in table.settings],
        [s.flag for s in table.settings],
        [table.variable(s) for s in table.settings],
    ):
        assert len(set(names)) == len(names)
