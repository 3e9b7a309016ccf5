"""Machine code built from C++, kept on disk: the same source, compiler, options and processor never compile twice.

They lie in ``$MARLENV_CACHE``, else in ``$XDG_CACHE_HOME/marlenv``, else in ``~/.cache/marlenv``; everything there may
be deleted at any time. Of a source with the key ``K`` there are

    ================ =============================================================================================
    ``K.SHA256.so``  the library; its name says what its bytes are, so that a truncated or damaged one is never loaded;
                     ``.cubin`` where it is for a GPU
    ``K.lock``       held by who compiles, and by the compiler itself: a source is compiled by one process at a time
    ``K.made``       a library whose process did not live to name it; the next one does
    ================ =============================================================================================

Machine code runs with all rights of who loads it. The folder is therefore made for its owner alone (mode 0700), and
neither a library nor a folder that belongs to somebody else, or that others may write to, is used.
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import os
import platform
import shlex
import shutil
import stat
import subprocess
import threading
import time
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from marlenv.errors import Unsupported

try:
    import fcntl
except ImportError:  # not on Windows, where there is no machine code either
    fcntl = None  # type: ignore[assignment]

OPTIONS = ("-std=c++17", "-O2", "-march=native", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math",
           "-fno-strict-aliasing", "-Wno-psabi", "-shared", "-fPIC")  # fmt: skip
OTHERS = stat.S_IWGRP | stat.S_IWOTH
LINE = '#line 1 "kernel"\n'  # what assembly calls the source: its path may have quotes, which GCC does not escape
PAUSE = 0.05  # seconds between two looks at a lock
ANSWER = 10.0  # seconds that a compiler may take to say what it is
SCRIPT = 'umask 077; part=$1; made=$2; shift 2; "$@" && mv -f "$part" "$made"'
"""The compiler outlives a process that does not wait for it: what it made then has its name only when it is whole."""


class StillCompiling(Unsupported):
    """The compiler takes longer than somebody wants to wait; it goes on in the background."""


def folder() -> Path:
    """Where libraries are kept.

    Raises:
        Unsupported: it lies in the home of nobody.

    """
    own = os.environ.get("MARLENV_CACHE")
    path = Path(own or Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "marlenv")
    try:
        return path.expanduser()
    except RuntimeError as error:
        raise _no_place(path, f"cannot be found ({error})") from error


def compiler() -> tuple[str, str] | None:
    """The C++ compiler, ``$CXX`` or ``g++`` or ``clang++``, and what it says it is; None where there is none.

    Raises:
        Unsupported: ``$CXX`` names what is not there, or the compiler does not say what it is.

    """
    if not fcntl:
        return None
    try:
        asked = shlex.split(os.environ.get("CXX", ""))
    except ValueError as error:
        raise Unsupported(
            f"CXX={os.environ['CXX']!r} is no command ({error}); name a C++ compiler in CXX, or unset it, for g++ or "
            f"clang++"
        ) from error
    for name, *more in [asked] if asked else [["g++"], ["clang++"]]:
        if path := shutil.which(name):
            command = shlex.join([path, *more])
            said, wrong = _version(command)
            if wrong:
                raise Unsupported(f"the compiler {command} does not answer to --version ({wrong}); name another in CXX")
            return command, said
    if asked:
        raise Unsupported(
            f"CXX={os.environ['CXX']!r}: there is no program {asked[0]!r}; name a C++ compiler in CXX, or unset it, "
            f"for g++ or clang++"
        )
    return None


@lru_cache(maxsize=8)
def _version(command: str) -> tuple[str, str]:
    """What a compiler says it is, or why it says nothing."""
    asks = [*shlex.split(command), "--version"]
    try:
        done = subprocess.run(asks, stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=ANSWER)
    except subprocess.TimeoutExpired:
        return "", f"not within {ANSWER:g} seconds"
    except OSError as error:
        return "", f"it cannot be run: {error}"
    return done.stdout.decode(errors="replace").partition("\n")[0], ""


@lru_cache(maxsize=1)
def processor() -> str:
    """The processor and what it can do."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return platform.machine() + platform.processor()
    return "".join(sorted({line for line in lines if line.startswith(("model name", "flags", "Features", "CPU part"))}))


class Compiler:
    """What makes a library of a source: the C++ compiler, for this processor."""

    source, library = "cpp", "so"
    """How the names of their files end."""

    def changes(self) -> tuple[str, ...]:
        """Everything but the source that changes a library."""
        return (*OPTIONS, *(compiler() or ("", "")), processor())

    def command(self, code: Path, made: Path) -> list[str]:
        """What makes the library ``made`` of the source ``code``.

        Raises:
            Unsupported: there is no such compiler.

        """
        found = compiler()
        if found is None:
            raise Unsupported(
                "there is no C++ compiler; install g++ or clang++, or name one in CXX (compile='none' needs none)"
            )
        return [*shlex.split(found[0]), *OPTIONS, str(code), "-o", str(made)]


CPU = Compiler()


def key(source: str, by: Compiler = CPU) -> str:
    """What a library is called: a hash of everything that changes it."""
    return hashlib.sha256("\0".join((source, *by.changes())).encode()).hexdigest()[:32]


# --- whom to trust -------------------------------------------------------------------------------


def trusted(path: Path) -> None:
    """Raises where somebody else could decide what is in a folder or a library.

    Raises:
        Unsupported: it, or a folder that it lies in, belongs to somebody else, or others may write to it.

    """
    if not hasattr(os, "geteuid"):
        return
    me, own = os.geteuid(), path.lstat()
    if own.st_uid != me:
        raise _distrust(path, path, f"belongs to user {own.st_uid}, and you are {me}")
    if stat.S_ISLNK(own.st_mode) or own.st_mode & OTHERS:
        raise _distrust(path, path, f"can be written to by others (mode {stat.S_IMODE(own.st_mode):04o})")
    for parent in path.parents:
        above = parent.lstat()
        if above.st_uid not in (me, 0):
            raise _distrust(path, parent, f"belongs to user {above.st_uid}, and you are {me}")
        if above.st_mode & OTHERS and not above.st_mode & stat.S_ISVTX:  # in /tmp only owners rename what is theirs
            raise _distrust(path, parent, f"can be written to by others (mode {stat.S_IMODE(above.st_mode):04o})")


def _distrust(path: Path, what: Path, why: str) -> Unsupported:
    remedy = f"chmod go-w {what}" if "mode" in why else f"delete {path}, if you may"
    where = "" if what == path else f" (machine code is kept in {path})"
    return Unsupported(
        f"machine code that others could have written is not run: {what} {why}{where}; {remedy}, or set MARLENV_CACHE "
        f"to a "
        "folder of your own"
    )


def own_folder() -> Path:
    """The folder, made if it is not there, for its owner alone.

    Raises:
        Unsupported: it is no folder, cannot be made or written to, or is not to be trusted.

    """
    path = Path(os.path.realpath(folder()))
    try:
        missing = [one for one in (path, *path.parents) if not one.exists()]
        for one in reversed(missing):
            with contextlib.suppress(FileExistsError):  # another process was faster
                one.mkdir(0o700)
    except OSError as error:
        raise _no_place(path, f"cannot be made ({type(error).__name__}: {error})") from error
    if not path.is_dir():
        raise _no_place(path, "is no folder")
    trusted(path)
    if not os.access(path, os.W_OK | os.X_OK):
        raise _no_place(path, "cannot be written to")
    return path


def _no_place(path: Path, why: str, need: str = "be written to") -> Unsupported:
    source = "MARLENV_CACHE" if os.environ.get("MARLENV_CACHE") else "the cache"
    return Unsupported(
        f"machine code is kept in {path} ({source}), which {why}; set MARLENV_CACHE to a folder of your own that can "
        f"{need}"
    )


# --- libraries -----------------------------------------------------------------------------------


def find(source: str, by: Compiler = CPU) -> Path | None:
    """The library of a source, if it is there and whole; a damaged one is deleted.

    Args:
        source: the C++.
        by: what made it.

    Raises:
        Unsupported: it, or the folder, is not to be trusted.

    """
    home, name = Path(os.path.realpath(folder())), key(source, by)
    if not home.is_dir():
        return None
    trusted(home)
    for path in sorted(home.glob(f"{name}.*.{by.library}")):
        with contextlib.suppress(FileNotFoundError):  # another process found it damaged
            trusted(path)
            if path.name == f"{name}.{_digest(path)}.{by.library}":
                return path
            _delete(path)
    return None


def _delete(damaged: Path) -> None:
    try:
        damaged.unlink(missing_ok=True)
    except OSError as error:
        said = f"holds a damaged library, {damaged.name}, and cannot be written to"
        raise _no_place(damaged.parent, said) from error


def build(source: str, patience: float | None = None, by: Compiler = CPU) -> tuple[Path, bool]:
    """The library of a source, and whether it had to be compiled.

    Args:
        source: the C++.
        patience: seconds to wait for the compiler, which goes on without us; left out, until it is done.
        by: what makes it.

    Raises:
        Unsupported: there is no compiler, it fails, it is not done yet, or the folder is not to be trusted.

    """
    if found := find(source, by):
        return found, False
    home, name = own_folder(), key(source, by)
    until = None if patience is None else time.monotonic() + patience
    made = home / f"{name}.made"
    with _locked(home / f"{name}.lock", made, until) as lock:
        waits = made.exists()  # asked before find: what another process names in between is found by its name
        if found := find(source, by):
            return found, False
        if not waits:
            _compile(source, home / name, lock, until, by)
        return _named(made, source, by), not waits


def load(source: str, patience: float | None = None) -> tuple[ctypes.CDLL, Path, bool]:
    """The library of a source in this process, where it lies, and whether it had to be compiled.

    One that was found and cannot be loaded is made anew: it may be from a computer with other system libraries.

    Args:
        source: the C++.
        patience: as for :func:`build`.

    Raises:
        Unsupported: there is none, as for :func:`build`, or it cannot be loaded.

    """
    path, compiled = build(source, patience)
    try:
        return ctypes.CDLL(str(path)), path, compiled
    except OSError as error:
        if os.statvfs(path.parent).f_flag & getattr(os, "ST_NOEXEC", 0):
            why = f"is on a disk from which nothing can be run (noexec: {error})"
            raise _no_place(path.parent, why, "be written to and run from") from error
        _delete(path)
        if compiled:
            by = CPU.command(path, path)[0]
            raise Unsupported(f"the library that {by} made cannot be loaded ({error}); name another in CXX") from error
    return load(source, patience)


def _compile(source: str, base: Path, lock: int, until: float | None, by: Compiler) -> None:
    """Has the compiler make ``base.made``."""
    code, part, said, made = (base.with_name(f"{base.name}.{end}") for end in (by.source, "part", "said", "made"))
    compiles = by.command(code, part)
    command = ["sh", "-c", SCRIPT, "sh", str(part), str(made), *compiles]
    try:
        code.write_text(f"{LINE}{source}", encoding="utf-8")
        told = said.open("wb")
    except OSError as error:
        with contextlib.suppress(OSError):
            code.unlink()
        raise _no_place(base.parent, f"cannot be written to ({type(error).__name__}: {error})") from error
    with told:
        try:
            child = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=told, stderr=told, pass_fds=[lock], start_new_session=True
            )
        except OSError as error:
            why = f"the compiler is started by sh, which cannot be run ({error}); put its folder on PATH"
            raise Unsupported(why) from error
    try:
        failed = child.wait(None if until is None else max(until - time.monotonic(), 0))
    except BaseException as error:  # a key was pressed, or the time is up: it goes on, and must not stay as a zombie
        threading.Thread(target=child.wait, name="marlenv-compile", daemon=True).start()
        if isinstance(error, subprocess.TimeoutExpired):
            raise _later() from None
        raise
    text = said.read_text(encoding="utf-8", errors="replace")
    for one in (code, said, part):
        one.unlink(missing_ok=True)
    if failed:
        raise Unsupported(
            f"the compiler {compiles[0]} failed, status {failed}: {text[:2000].strip() or 'it said nothing'}"
        )


def _named(made: Path, source: str, by: Compiler) -> Path:
    """The library, under the name that says what its bytes are."""
    with contextlib.suppress(FileNotFoundError):  # another process named it
        trusted(made)
        made.rename(made.with_name(f"{key(source, by)}.{_digest(made)}.{by.library}"))
    path = find(source, by)
    if path is None:
        raise Unsupported(f"the library in {made.parent} was deleted while it was made; try again")
    return path


@contextlib.contextmanager
def _locked(path: Path, made: Path, until: float | None) -> Iterator[int]:
    """Holds a lock, or sees that what it is for has been made."""
    try:
        file = path.open("w")
    except OSError as error:
        raise _no_place(path.parent, f"cannot be written to ({type(error).__name__}: {error})") from error
    with file:
        while not made.exists():
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if until is not None and time.monotonic() > until:
                    raise _later() from None
                time.sleep(PAUSE)
            except OSError:  # a disk that knows no locks: at worst two processes compile the same
                break
        yield file.fileno()
        with contextlib.suppress(
            OSError
        ):  # said, not left to closing: a process that was forked meanwhile has it open too
            fcntl.flock(file, fcntl.LOCK_UN)


def _later() -> StillCompiling:
    return StillCompiling("it is still being compiled, which goes on in the background; the next process finds it")


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
