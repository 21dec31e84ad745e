"""Build the compiled library with a chosen compiler, strictly: every warning is an error.

    python tests/native/building.py COMPILER FILE [FLAG ...]

Sources and flags are those of pyproject.toml.
"""

import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
STRICT = ("-Wall", "-Wextra", "-Werror")


def build(compiler: str, file: Path, *flags: str) -> Path:
    """Compile all sources into a shared library; RuntimeError with the compiler's words."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    (extension,) = settings["ext-modules"]
    done = subprocess.run(
        [
            *(compiler, *extension["extra-compile-args"], *STRICT, "-fPIC", "-shared", *flags),
            *(str(ROOT / source) for source in extension["sources"]),
            *("-o", str(file), *(f"-l{name}" for name in extension["libraries"])),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(done.stderr)
    return file


if __name__ == "__main__":
    print(build(sys.argv[1], Path(sys.argv[2]), *sys.argv[3:]))
