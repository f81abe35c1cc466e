"""Run the numeric part of the tests with other instruction sets, as other machines would.

CPUs round alike, but compilers and libraries choose another order of summation for each, so that the last bits of
sums, exponentials and products of matrices differ. What is tested or printed may not depend on them.

    python scripts/portable.py [SET ...] [-- ARGUMENTS OF PYTEST]

prints one line per set, and the output of pytest where it fails. A set that this machine cannot run is left out.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import llvmlite.binding
import numpy as np

ROOT = Path(__file__).parent.parent
NUMERIC = ["tests/" + name for name in (
    "data", "engine", "evaluation", "games", "kernels", "learners", "measures", "monitoring", "papers", "streams",
    "surrogates", "training", "test_regret.py",
)] + ["src", "docs", "README.md"]  # fmt: skip
QUICK = "not slow and not browser and not ray"


class InstructionSet(NamedTuple):
    """An instruction set for numba, NumPy, OpenBLAS and the C library, and the CPU features that it needs."""

    cpu: str
    blas: str
    needs: frozenset[str] = frozenset()
    without: tuple[str, ...] = ()  # parts of the names of features that NumPy and the C library leave alone

    def runs_here(self) -> bool:
        """Return whether this machine has the features that the set needs."""
        has = llvmlite.binding.get_host_cpu_features()
        return all(has.get(feature, False) for feature in self.needs)

    def environment(self, cache: str) -> dict[str, str]:
        """Return environment variables that restrict a process to this set and put its kernels into `cache`."""
        found: list[str] = np.show_config("dicts")["SIMD Extensions"]["found"]
        hidden = [name for name in found if any(part in name for part in self.without)]
        return {
            **os.environ,
            "NUMBA_CPU_NAME": self.cpu,
            "NUMBA_CPU_FEATURES": ",".join(f"+{feature}" for feature in sorted(self.needs)),
            "NUMBA_CACHE_DIR": cache,
            "NPY_DISABLE_CPU_FEATURES": " ".join(hidden),
            "OPENBLAS_CORETYPE": self.blas,
            "GLIBC_TUNABLES": "glibc.cpu.hwcaps=" + ",".join(f"-{part}" for part in self.without),
        }


_AVX2 = frozenset({"avx", "avx2", "fma"})
_AVX512 = frozenset({"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"})
SETS = {
    "sse2": InstructionSet("generic", "Nehalem", without=("AVX", "AVX2", "FMA", "X86_V3", "X86_V4", "512")),
    "avx2": InstructionSet("haswell", "Haswell", _AVX2, without=("AVX512", "X86_V4")),
    "avx512": InstructionSet("skylake-avx512", "SkylakeX", _AVX2 | _AVX512),
}


def main(arguments: list[str]) -> int:
    """Run the named sets, or all, one after the other. Returns 1 if one fails."""
    names, _, rest = (" ".join(arguments) + " ").partition("-- ")
    failed = False
    for name in names.split() or SETS:
        failed |= not _passes(name, SETS[name], rest.split() or NUMERIC)
    return int(failed)


def _passes(name: str, chosen: InstructionSet, tests: list[str]) -> bool:
    if not chosen.runs_here():
        print(f"{name}: not on this machine")  # noqa: T201
        return True
    began = time.monotonic()
    pytest = [sys.executable, "-m", "pytest", "-q", "-n", "auto", "-p", "no:cacheprovider", "-m", QUICK, *tests]
    with tempfile.TemporaryDirectory() as cache:
        ended = subprocess.run(  # noqa: S603 - the tests of this project
            pytest, env=chosen.environment(cache), cwd=ROOT, capture_output=True, text=True, check=False
        )
    said = ended.stdout.strip() or ended.stderr.strip()
    print(said if ended.returncode else f"{name}: {said.splitlines()[-1]}, {time.monotonic() - began:.0f} s")  # noqa: T201
    return ended.returncode == 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
