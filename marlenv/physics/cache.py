"""Shared libraries built from C++, kept on disk: the same source, compiler, options and processor never compile twice.

They lie in ``$MARLENV_CACHE``, else in ``$XDG_CACHE_HOME/marlenv``, else in ``~/.cache/marlenv``; everything there may be deleted
at any time.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
from functools import lru_cache
from pathlib import Path

from marlenv.errors import Unsupported

OPTIONS = ("-std=c++17", "-O2", "-march=native", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math",
           "-fno-strict-aliasing", "-Wno-psabi", "-shared", "-fPIC")  # fmt: skip


def folder() -> Path:
    """Where libraries are kept."""
    if own := os.environ.get("MARLENV_CACHE"):
        return Path(own)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "marlenv"


@lru_cache(maxsize=1)
def compiler() -> tuple[str, str] | None:
    """The C++ compiler, ``$CXX`` or ``g++`` or ``clang++``, and what it says it is; None where there is none."""
    for name in (os.environ.get("CXX"), "g++", "clang++"):
        if name and (path := shutil.which(name)):
            told = subprocess.run([path, "--version"], capture_output=True, text=True, check=False).stdout
            return path, told.partition("\n")[0]
    return None


@lru_cache(maxsize=1)
def processor() -> str:
    """The processor and what it can do."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.machine() + platform.processor()
    return "".join(sorted({line for line in lines if line.startswith(("model name", "flags", "Features", "CPU part"))}))


def key(source: str) -> str:
    """What a library is called: a hash of everything that changes it."""
    found = compiler()
    parts = (source, *OPTIONS, *(found or ("", "")), processor())
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]


def path_of(source: str) -> Path:
    """Where the library of a source is, or would be."""
    return folder() / f"{key(source)}.so"


def build(source: str) -> tuple[Path, bool]:
    """The library of a source, and whether it had to be compiled.

    Raises:
        Unsupported: there is no compiler, or it fails.

    """
    target = path_of(source)
    if target.exists():
        return target, False
    found = compiler()
    if found is None:
        raise Unsupported(
            "compile='aot' needs a C++ compiler: install g++ or clang++, or name one in CXX; compile='none' needs none"
        )
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as place:
        code, made = Path(place, "kernel.cpp"), Path(place, "kernel.so")
        code.write_text(source)
        done = subprocess.run(
            [found[0], *OPTIONS, str(code), "-o", str(made)], capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise Unsupported(f"compile='aot': {found[0]} failed: {done.stderr[:2000]}")
        os.replace(made, target)  # in one go: other processes may be at it too
    return target, True
