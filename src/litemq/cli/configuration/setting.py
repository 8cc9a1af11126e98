"""Settings of a program: TOML key, flag, environment variable and configuration field."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields
from functools import cached_property
from typing import Any

from litemq.cli.configuration.kinds import Kind

__all__ = ["Setting", "Table"]


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting.

    The flag and the variable derive from ``field`` unless ``name`` or ``variable`` is set.
    """

    key: str
    field: str
    kind: Kind
    help: str
    name: str = ""
    variable: str = ""
    secret: bool = False

    @property
    def flag(self) -> str:
        if self.name:
            return f"--{self.name}"
        # The unit is part of the value: --retention 72h, --file-size 1GiB.
        name = self.field.removesuffix("_ms") if self.kind.name == "duration" else self.field
        return f"--{name.replace('_bytes', '-size') if self.kind.name == 'size' else name}".replace("_", "-")


@dataclass(frozen=True)
class Table:
    """All settings of one program. ``load`` imports the configuration dataclass, on first use."""

    program: str
    load: Callable[[], type[Any]]
    settings: tuple[Setting, ...] = field(repr=False)
    # Defaults of the settings that are not fields of the dataclass.
    other_defaults: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def config_type(self) -> type[Any]:
        """The configuration dataclass, which defines the defaults."""
        return self.load()

    @cached_property
    def defaults(self) -> dict[str, Any]:
        """Defaults by field."""
        found = {**self.other_defaults, **{one.name: _default(one) for one in fields(self.config_type)}}
        return {setting.field: found[setting.field] for setting in self.settings}

    def variable(self, setting: Setting) -> str:
        """Return the environment variable of ``setting``."""
        name = setting.flag.removeprefix("--").removeprefix(f"{self.program}-")
        return setting.variable or f"LITEMQ_{self.program}_{name}".replace("-", "_").upper()

    @property
    def file_variable(self) -> str:
        """The environment variable of ``--config``."""
        return f"LITEMQ_{self.program}_CONFIG".upper()


def _default(one: Field[Any]) -> Any:
    return one.default if one.default_factory is MISSING else one.default_factory()
