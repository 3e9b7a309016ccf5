"""Libraries on disk: whole or not loaded, nobody else's, named in one go, and found again whoever made them."""

import hashlib
import os
import shutil
import subprocess
import sys
import time
import warnings
from types import SimpleNamespace

import pytest
import torch
from sizes import first

from marlenv.errors import NotCompiled, Unsupported
from marlenv.physics.jit import cache, tiers
from marlenv.physics.jit.tiers import Compiled
from marlenv.registration import make

pytestmark = pytest.mark.skipif(cache.compiler() is None, reason="needs a C++ compiler")
SOURCE = 'extern "C" int answer() { return 42; }'
CALL = "import ctypes, sys; print(ctypes.CDLL(sys.argv[1]).answer())"


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("MARLENV_CACHE", str(tmp_path / "kernels"))


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A cache with the library of simple_spread, which this process has not loaded."""
    home = tmp_path_factory.mktemp("made") / "kernels"
    code = "import marlenv; marlenv.make('simple_spread', num_envs=2, compile='aot').reset()"
    subprocess.run([sys.executable, "-c", code], env={**os.environ, "MARLENV_CACHE": str(home)}, check=True)
    return home


@pytest.fixture
def home(made):
    """A copy of it, where this test looks for libraries."""
    shutil.copytree(made, cache.folder())
    return cache.folder()


def fake_compiler(monkeypatch, tmp_path, text):
    script = tmp_path / "compiler"
    script.write_text(f"#!/bin/sh\n{text}\n")
    script.chmod(0o755)
    monkeypatch.setattr(cache, "compiler", lambda: (str(script), "fake"))


def answer(path):
    done = subprocess.run([sys.executable, "-c", CALL, str(path)], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout.strip()


def refused(match):
    """ "aot" says why; "auto" says why once, and plays."""
    with pytest.raises(Unsupported, match=match):
        make("simple_spread", num_envs=2, compile="aot").reset()
    env = make("simple_spread", num_envs=2, compile="auto")
    with pytest.warns(NotCompiled, match=match) as said:
        env.rollout(3)
    env.rand_step(env.reset())  # warnings are errors here: nothing more is said
    assert len(said) == 1
    assert env.engine is env.simulation


# --- whole ---------------------------------------------------------------------------------------


def test_a_source_is_compiled_once_and_its_library_says_what_it_is():
    path, compiled = cache.build(SOURCE)
    assert compiled
    assert cache.build(SOURCE) == (path, False)
    assert answer(path) == (0, "42")
    assert sorted(p.suffix for p in path.parent.iterdir()) == [".lock", ".so"]


@pytest.mark.parametrize("keep", [0, 100, 8192, -1])
def test_a_truncated_library_is_built_anew(keep):
    path, _ = cache.build(SOURCE)
    whole = path.read_bytes()
    path.write_bytes(whole[:keep])
    assert answer(path) != (0, "42") or keep == -1  # loading it is a crash, or an error
    again, compiled = cache.build(SOURCE)
    assert compiled
    assert answer(again) == (0, "42")


def test_one_wrong_bit_is_seen():
    path, _ = cache.build(SOURCE)
    damaged = bytearray(path.read_bytes())
    damaged[len(damaged) // 2] ^= 1
    path.write_bytes(damaged)
    assert cache.find(SOURCE) is None
    assert cache.build(SOURCE)[1]


@pytest.mark.slow
def test_an_env_plays_on_with_a_damaged_cache(home):
    [library] = home.glob("*.so")
    library.write_bytes(library.read_bytes()[: 1 << 12])
    ours, reference = (make("simple_spread", num_envs=2, seed=0, compile=tier) for tier in ("aot", "none"))
    assert ours.engine.kernel.compiled
    for one, other in zip(ours.rollout(3).values(True, True), reference.rollout(3).values(True, True), strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-6)


@pytest.mark.slow
def test_a_library_is_never_seen_half_written():
    """The compiler writes in pieces, slowly; whoever looks meanwhile finds nothing."""
    child = subprocess.Popen([sys.executable, "-c", SLOWLY], env={**os.environ, "SOURCE": SOURCE})
    seen = set()
    while child.poll() is None:
        seen |= {path.name.split(".")[-1] for path in cache.folder().glob("*.so")}
        for path in cache.folder().glob("*.so"):
            assert cache._digest(path) in path.name
        time.sleep(0.01)
    assert child.returncode == 0
    assert cache.build(SOURCE)[1] is False


SLOWLY = """
import os
from marlenv.physics.jit import cache
slow = '"$@" && cp "$part" "$part.2" && head -c 9000 "$part.2" > "$part" && sleep 0.3 && mv "$part.2" "$part"'
cache.SCRIPT = cache.SCRIPT.replace('"$@"', slow)
assert cache.build(os.environ["SOURCE"])[1]
"""


@pytest.mark.slow
def test_two_processes_compile_a_source_once():
    code = "import os\nfrom marlenv.physics.jit import cache\nprint(cache.build(os.environ['SOURCE'])[1])"
    children = [
        subprocess.Popen(
            [sys.executable, "-c", code], env={**os.environ, "SOURCE": SOURCE}, stdout=subprocess.PIPE, text=True
        )
        for _ in range(3)
    ]
    assert sorted(child.communicate()[0].strip() for child in children) == ["False", "False", "True"]


@pytest.mark.parametrize("named", ["before we look for it", "after we looked for it", "by us"])
def test_what_another_process_compiled_is_not_said_to_be_ours(monkeypatch, tmp_path, named):
    library, _ = cache.build(SOURCE)
    made = library.with_name(f"{cache.key(SOURCE)}.made")
    library.rename(made)  # compiled, and not named yet: nobody waits for the lock any longer
    looks, find = [], cache.find

    def another_names_it(*args):
        looks.append(named)
        if len(looks) == 2 and named.startswith("before"):
            made.rename(library)
        found = find(*args)
        if len(looks) == 2 and named.startswith("after"):
            made.rename(library)
        return found

    monkeypatch.setattr(cache, "find", another_names_it)
    monkeypatch.setattr(cache, "_compile", lambda *_: pytest.fail("it was compiled a second time"))
    assert cache.build(SOURCE) == (library, False)


# --- nobody else's -------------------------------------------------------------------------------


def test_the_folder_is_made_for_its_owner_alone(tmp_path, monkeypatch):
    monkeypatch.setenv("MARLENV_CACHE", str(tmp_path / "deep" / "er"))
    before = os.umask(0)
    try:
        path, _ = cache.build(SOURCE)
    finally:
        os.umask(before)
    assert {one.stat().st_mode & 0o777 for one in (path.parent, path.parent.parent)} == {0o700}
    assert not path.stat().st_mode & 0o077
    assert cache.find(SOURCE) == path


@pytest.mark.slow
@pytest.mark.parametrize("mode", first([0o702, 0o777, 0o770], 3))
@pytest.mark.parametrize("what", ["library", "folder", "parent"])
def test_what_others_may_write_to_is_not_loaded(home, what, mode):
    place = {"library": next(home.glob("*.so")), "folder": home, "parent": home.parent}[what]
    place.chmod(mode)
    refused(f"{place} can be written to by others .mode 0{mode:o}.*chmod go-w .*MARLENV_CACHE")
    place.chmod(0o700)
    assert isinstance(make("simple_spread", num_envs=2, compile="auto").engine, Compiled)


def test_a_link_is_not_loaded(tmp_path):
    path, _ = cache.build(SOURCE)
    path.rename(tmp_path / "elsewhere.so")
    path.symlink_to(tmp_path / "elsewhere.so")
    with pytest.raises(Unsupported, match="can be written to by others"):
        cache.find(SOURCE)


def test_a_folder_that_others_may_write_to_with_a_sticky_bit_is_as_good_as_tmp():
    path, _ = cache.build(SOURCE)
    path.parent.parent.chmod(0o1777)
    assert cache.find(SOURCE) == path


@pytest.mark.slow
def test_what_belongs_to_somebody_else_is_not_loaded(home, monkeypatch):
    me = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: me + 1234)
    refused(f"belongs to user {me}, and you are {me + 1234}.*MARLENV_CACHE")


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root gives files away")
@pytest.mark.parametrize("what", ["library", "folder", "parent"])
def test_what_was_given_away_is_not_loaded(home, what):
    place = {"library": next(home.glob("*.so")), "folder": home, "parent": home.parent}[what]
    os.chown(place, 4321, -1)
    refused(f"{place} belongs to user 4321, and you are 0")


# --- whatever goes wrong -------------------------------------------------------------------------


def test_no_compiler(monkeypatch):
    monkeypatch.setattr(cache, "compiler", lambda: None)
    refused(r"SimpleSpread: .*there is no C\+\+ compiler; install g\+\+")


def test_a_compiler_that_fails(monkeypatch, tmp_path):
    fake_compiler(monkeypatch, tmp_path, "echo the disk is full >&2; exit 3")
    refused("SimpleSpread: .*compiler failed, status 3: the disk is full")


def test_a_path_without_a_shell(monkeypatch, tmp_path):
    fake_compiler(monkeypatch, tmp_path, "exit 0")
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    refused("SimpleSpread: .*the compiler is started by sh, which cannot be run .*; put its folder on PATH")


def test_a_compiler_that_makes_nothing(monkeypatch, tmp_path):
    fake_compiler(monkeypatch, tmp_path, "exit 0")
    refused("SimpleSpread: .*compiler failed, status 1")


def test_a_compiler_that_makes_nonsense(monkeypatch, tmp_path):
    fake_compiler(monkeypatch, tmp_path, 'while [ "$1" != -o ]; do shift; done; echo nonsense > "$2"')
    refused(
        "the library that .*/compiler made cannot be loaded .*(invalid ELF header|file too short).; name another in"
    )
    assert not list(cache.folder().glob("*.so"))


def test_a_library_that_cannot_be_loaded_is_made_anew():
    """One that is whole, but of a computer with other system libraries."""
    text = b"of another computer"
    other = cache.own_folder() / f"{cache.key(SOURCE)}.{hashlib.sha256(text).hexdigest()}.so"
    other.write_bytes(text)
    other.chmod(0o700)
    assert cache.find(SOURCE) == other
    library, path, compiled = cache.load(SOURCE)
    assert (library.answer(), compiled, path.exists(), other.exists()) == (42, True, True, False)
    assert cache.load(SOURCE)[1:] == (path, False)


@pytest.mark.slow
def test_a_disk_from_which_nothing_can_be_run(monkeypatch):
    def mapped(path):
        raise OSError(f"{path}: failed to map segment from shared object")

    monkeypatch.setattr(cache.ctypes, "CDLL", mapped)
    monkeypatch.setattr(cache.os, "statvfs", lambda _: SimpleNamespace(f_flag=os.ST_NOEXEC))
    refused(r"kernels \(MARLENV_CACHE\), which is on a disk .*noexec.*set MARLENV_CACHE to a folder .* and run from")
    assert list(cache.folder().glob("*.so"))  # nothing is wrong with it, and it is not made again and again


def test_a_library_without_what_it_should_have(monkeypatch, tmp_path):
    found = cache.compiler()[0]
    fake_compiler(monkeypatch, tmp_path,
                  f'echo "int x;" > {tmp_path}/x.c; for last; do :; done; {found} -shared -fPIC -x c {tmp_path}/x.c -o '
                  f'"$last"')  # fmt: skip
    refused("SimpleSpread: .*AttributeError: .*undefined symbol: run")


def test_a_folder_that_cannot_be_made(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("MARLENV_CACHE", str(tmp_path / "file" / "kernels"))
    refused("SimpleSpread: .*NotADirectoryError: .*file")


def test_a_file_in_place_of_the_folder(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("MARLENV_CACHE", str(tmp_path / "file"))
    refused(r"SimpleSpread: .*file .MARLENV_CACHE., which is no folder; set MARLENV_CACHE to a folder of your own")


def test_a_folder_where_there_can_be_none(monkeypatch):
    monkeypatch.setenv("MARLENV_CACHE", "/proc/marlenv")
    refused("SimpleSpread: .*/proc/marlenv .MARLENV_CACHE., which cannot be made .*; set MARLENV_CACHE to a folder")


def test_a_folder_in_the_home_of_nobody(monkeypatch):
    monkeypatch.setenv("MARLENV_CACHE", "~nobody-is-called-so/kernels")
    refused("kept in ~nobody-is-called-so/kernels .MARLENV_CACHE., which cannot be found .*; set MARLENV_CACHE to a")


def test_a_folder_at_home(monkeypatch, tmp_path):
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("MARLENV_CACHE", "~/kernels")
    path, _ = cache.build(SOURCE)
    assert path.parent == tmp_path / "home" / "kernels"
    assert not list((tmp_path / "work").iterdir())


def test_a_compiler_of_several_words(monkeypatch, tmp_path):
    """As for a cache of compilers: what is before the compiler is run, too."""
    before, found = tmp_path / "before this", cache.compiler()[0]
    before.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/said\nexec "$@"\n')
    before.chmod(0o755)
    monkeypatch.setenv("CXX", f"'{before}' {found} -DANSWER=1")
    path, _ = cache.build(SOURCE)
    assert answer(path) == (0, "42")
    said = (tmp_path / "said").read_text().splitlines()
    assert all(line.startswith(f"{found} -DANSWER=1 ") for line in said)
    assert "--version" in said[0]
    assert "-shared" in said[-1]


def test_a_compiler_that_is_not_there_is_named(monkeypatch):
    monkeypatch.setenv("CXX", "g++-of-nobody -O1")
    refused(r"SimpleSpread: .*CXX='g\+\+-of-nobody -O1': there is no program 'g\+\+-of-nobody'; name a C\+\+ compiler")
    monkeypatch.setenv("CXX", "")
    assert cache.compiler() is not None


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('#!/bin/sh\ncase "$*" in *--version*) exec sleep 60;; esac', "not within 0.2 seconds"),
        ("no program", "it cannot be run: .*Exec format error"),
        ("#!/no/such/interpreter", "it cannot be run: .*No such file"),
    ],
    ids=["hangs", "no program", "no interpreter"],
)
def test_a_compiler_that_does_not_say_what_it_is(monkeypatch, tmp_path, text, says):
    script = tmp_path / "c++"
    script.write_text(text)
    script.chmod(0o755)
    monkeypatch.setenv("CXX", str(script))
    monkeypatch.setattr(cache, "ANSWER", 0.2)
    start = time.monotonic()
    refused(rf"the compiler .*/c\+\+ does not answer to --version \({says}.*\); name another in CXX")
    assert time.monotonic() - start < 50


def test_a_compiler_in_half_a_quote(monkeypatch):
    monkeypatch.setenv("CXX", 'g++ "')
    refused(r"""CXX='g\+\+ "' is no command \(No closing quotation\); name a C\+\+ compiler in CXX, or unset it""")


def test_a_full_disk_takes_no_lock(monkeypatch):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(cache.Path, "open", full)
    refused("MARLENV_CACHE., which cannot be written to .OSError: .*No space left on device.*set MARLENV_CACHE to a")


def test_a_full_disk(monkeypatch):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(cache.Path, "write_text", full)
    refused("SimpleSpread: .*MARLENV_CACHE.*OSError: .*No space left on device.*set MARLENV_CACHE to a folder of your")


def test_a_disk_that_fills_up_is_named_and_no_half_source_stays():
    import resource

    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 19, before[1]))
    try:
        with pytest.raises(
            Unsupported, match=r"kernels \(MARLENV_CACHE\), which cannot be written to \(OSError: .*large"
        ):
            cache.build(f"{SOURCE} // {'x' * (1 << 20)}")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert [path.suffix for path in cache.folder().iterdir()] == [".lock"]


def test_a_damaged_library_where_nothing_can_be_written(home, monkeypatch):
    [library] = home.glob("*.so")
    library.write_bytes(library.read_bytes()[:100])

    def denied(path, missing_ok=False):  # root may write to whatever it likes
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(cache.Path, "unlink", denied)
    refused(f"{home} .MARLENV_CACHE., which holds a damaged library, {library.name}, and cannot be written to; set ")


def test_a_path_with_quotes(monkeypatch, tmp_path):
    """GCC writes the path of a source into assembly, beside instructions of ours, as it is."""
    monkeypatch.setenv("MARLENV_CACHE", str(tmp_path / "a \"b' ü"))
    path, _ = cache.build('extern "C" int answer() { int x = 42; asm volatile("nop" : "+r"(x)); return x; }')
    assert path.parent == tmp_path / "a \"b' ü"
    assert answer(path) == (0, "42")


@pytest.mark.parametrize("error", [RuntimeError("boom"), RecursionError("deep"), MemoryError(), IndexError(3)])
def test_any_error_while_tracing(monkeypatch, error):
    def trace(*_, **__):
        raise error

    monkeypatch.setattr(tiers.known, "Source", trace)
    monkeypatch.setattr(tiers.known, "_sources", type(tiers.known._sources)())
    refused(f"SimpleSpread: .*{type(error).__name__}: {error}")


def test_a_key_that_is_pressed_while_tracing_is_no_error_of_the_scenario(monkeypatch):
    def trace(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(tiers.known, "Source", trace)
    monkeypatch.setattr(tiers.known, "_sources", type(tiers.known._sources)())
    with pytest.raises(KeyboardInterrupt):
        make("simple_spread", num_envs=2, compile="auto").reset()


def test_nothing_is_said_where_machine_code_does_not_apply():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert make("simple_spread", num_envs=2, compile="auto", grad_enabled=True).rollout(2).shape == (2, 2)
        env = make("simple_spread", num_envs=2, compile="auto", device="meta")
        assert env.engine is env.simulation


# --- a process that does not wait ----------------------------------------------------------------

HASTY = """
import sys
from marlenv.registration import make
from marlenv.physics.jit import cache, tiers
tiers.PATIENCE = 0.0
real = cache.compiler()
cache.SCRIPT = "sleep 1; " + cache.SCRIPT
env = make("simple_spread", num_envs=2, seed=0, compile="auto")
env.rollout(2)
print(env.engine is env.simulation)
"""


@pytest.mark.slow
def test_what_is_compiled_when_a_process_ends_is_found_by_the_next():
    started = time.monotonic()
    done = subprocess.run([sys.executable, "-W", "error", "-c", HASTY], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "True"
    assert done.stderr == ""
    deadline = started + 300
    while not list(cache.folder().glob("*.made")) and time.monotonic() < deadline:
        assert not list(cache.folder().glob("*.so"))
        time.sleep(0.1)
    env = make("simple_spread", num_envs=2, seed=0, compile="auto")
    assert isinstance(env.engine, Compiled)
    assert not list(cache.folder().glob("*.made"))


@pytest.mark.slow
def test_who_insists_waits_for_a_compiler_that_somebody_else_started():
    subprocess.run([sys.executable, "-c", HASTY], capture_output=True, check=True)
    env = make("simple_spread", num_envs=2, seed=0, compile="aot")
    assert env.rollout(2).shape == (2, 2)
    assert len(list(cache.folder().glob("*.so"))) == 1


def test_a_slow_compiler_is_not_waited_for_and_nothing_is_said(monkeypatch, tmp_path):
    fake_compiler(monkeypatch, tmp_path, "sleep 3; exit 1")
    monkeypatch.setattr(tiers, "_late", set())
    monkeypatch.setattr(tiers, "PATIENCE", 0.2)
    env = make("simple_spread", num_envs=2, compile="auto")
    assert env.rollout(2).shape == (2, 2)
    assert env.engine is env.simulation


@pytest.mark.slow
def test_all_envs_of_a_process_play_the_same_numbers_whenever_the_compiler_is_done(monkeypatch):
    monkeypatch.setattr(tiers, "_late", set())
    monkeypatch.setattr(tiers, "PATIENCE", 0.0)
    small = make("simple_spread", num_envs=1, seed=0, compile="auto").rollout(4)
    make("simple_spread", num_envs=1, compile="aot").reset()  # by now the library is there
    monkeypatch.setattr(tiers, "PATIENCE", 600.0)
    env = make("simple_spread", num_envs=9, seed=0, compile="auto")
    large = env.rollout(4)
    assert env.engine is env.simulation
    assert torch.equal(small["next", "agents", "observation"], large["next", "agents", "observation"][:1])
