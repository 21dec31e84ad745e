"""Write the JSON schema of every file: ``python -m nearsight.runs.records --write FOLDER``."""

from __future__ import annotations

import argparse
from pathlib import Path

from nearsight.runs.records.schemas import write_schemas


def main() -> None:
    """Write one JSON schema per file to the folder given on the command line."""
    parser = argparse.ArgumentParser(description="Write the JSON schema of every record.")
    parser.add_argument("--write", type=Path, required=True, metavar="FOLDER")
    for path in write_schemas(parser.parse_args().write):
        print(path)


if __name__ == "__main__":
    main()
