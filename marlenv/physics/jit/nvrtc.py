"""NVIDIA's compiler for GPUs, NVRTC, as a program of its own: CUDA C++ becomes a cubin, without a GPU or a driver.

``python -P nvrtc.py SOURCE CUBIN sm_90`` writes the cubin and prints what ptxas says of it. It is a process of its own
so that nobody has to wait for it, as for a C++ compiler.
"""

from __future__ import annotations

import io
import sys
from pathlib import Path

OPTIONS = {
    "std": "c++17",
    "fma": False,
    "device_as_default_execution_space": True,
    "diag_suppress": 177,
    "ptxas_options": ["-v"],
}
"""Products are not joined with sums, as on CPUs; quotients and roots are exact by default. 177: nobody calls some."""


def main(source: str, cubin: str, arch: str) -> None:
    """Compiles one file into another."""
    from cuda.core import Program, ProgramOptions

    said = io.StringIO()
    options = ProgramOptions(arch=arch, **OPTIONS)
    made = Program(Path(source).read_text("utf-8"), "c++", options).compile("cubin", logs=said)
    Path(cubin).write_bytes(bytes(made.code))
    sys.stdout.write(said.getvalue())


if __name__ == "__main__":
    main(*sys.argv[1:])
