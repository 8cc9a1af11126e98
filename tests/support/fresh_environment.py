"""A virtual environment with only the built wheel and its locked dependencies."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

__all__ = ["fresh_environment"]

ROOT = Path(__file__).parents[2]


def fresh_environment(folder: Path, extra: str = "") -> Path:
    """Build and install the wheel, with ``extra`` if given; return the folder of its commands."""
    source = folder / "source"
    shutil.copytree(
        ROOT,
        source,
        ignore=shutil.ignore_patterns(".git", ".venv", "build", "dist", "*.so", "*.egg-info", "__pycache__", ".*cache"),
    )
    _run([sys.executable, "-m", "build", "--no-isolation", "--wheel", "--outdir", str(folder), str(source)])
    (wheel,) = folder.glob("*.whl")
    _run([sys.executable, "-m", "venv", "--without-pip", str(folder / "venv")])
    python = folder / "venv" / "bin" / "python"
    versions = folder / "versions.txt"  # without the hashes, which go with the whole lock
    lock = (ROOT / "requirements" / "dev.lock").read_text()
    versions.write_text(
        "\n".join(line.removesuffix(" \\") for line in lock.splitlines() if "==" in line and not line.startswith(" "))
    )
    # Compile bytecode, as pip does, unless it is a lot and no test measures the start.
    compiled = [] if extra else ["--compile-bytecode"]
    uv = str(Path(sys.executable).with_name("uv"))
    wanted = f"{wheel}[{extra}]" if extra else str(wheel)
    _run([uv, "pip", "install", "--quiet", *compiled, "--python", str(python), "--constraint", str(versions), wanted])
    return folder / "venv" / "bin"


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
