"""Run all comparisons with other packages, each in its own process.

python benchmarks/peers
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

QUESTIONS = ("rounds", "metrics", "classification", "offline")


def main() -> None:
    for question in QUESTIONS:
        subprocess.run([sys.executable, Path(__file__).with_name(f"{question}.py")], check=True)  # noqa: S603


if __name__ == "__main__":
    main()
