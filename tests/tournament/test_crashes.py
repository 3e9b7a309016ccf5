"""Whatever happens to those who play from a ledger, no game is lost and none is counted twice."""

from __future__ import annotations

import os
import random
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from contents import content

from marlenv.tournament.config import Config
from marlenv.tournament.drive import open_ledger, run
from marlenv.tournament.store import Ledger

pytestmark = [
    pytest.mark.slow,
    # where tests before these have started threads
    pytest.mark.filterwarnings("ignore:This process .* is multi-threaded"),
    pytest.mark.filterwarnings(r"ignore:os\.fork\(\) was called:RuntimeWarning"),  # says JAX
]
CONFIG = {"env": "tic_tac_toe", "players": dict.fromkeys("abc", "random"), "rows": 16, "block": 24}


def opened(path: Path, cycles: int) -> Ledger:
    return open_ledger(Config.of({**CONFIG, "cycles": cycles}), path)


def child(what: Callable[[], object]) -> int:
    """Does something in a process of its own; its number."""
    number = os.fork()
    if number == 0:
        code = 1
        try:
            torch.set_num_threads(1)
            what()
            code = 0
        except OSError:
            code = 3
        finally:
            os._exit(code)
    return number


def ended(number: int) -> int:
    """How a process ended: its exit code, or the negative number of a signal."""
    return os.waitstatus_to_exitcode(os.waitpid(number, 0)[1])


def dies_at(path: Path, steps: int) -> Callable[[], None]:
    """Plays, and is killed after so many steps of SQLite: between statements, in them, in a commit."""

    def play() -> None:
        left, ledger = steps, Ledger(path)

        def step() -> int:
            nonlocal left
            left -= 1
            if left <= 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return 0

        ledger._db.set_progress_handler(step, 1)
        run(ledger)

    return play


def test_kills_anywhere_lose_and_double_nothing(tmp_path: Path, sized: Callable[[int, int], int]) -> None:
    """Every other one inside SQLite, at a step that chance picks; the others at a time that chance picks."""
    rng, most, cycles = random.Random(0), sized(16, 60), sized(400, 800)
    opened(tmp_path / "killed.sqlite", cycles).close()
    kills = 0
    while kills < most:
        if kills % 2:
            code = ended(child(dies_at(tmp_path / "killed.sqlite", rng.randrange(1, 9_000))))
        else:
            number = child(lambda: run(Ledger(tmp_path / "killed.sqlite")))
            time.sleep(rng.uniform(0.001, 0.05))
            os.kill(number, signal.SIGKILL)
            code = ended(number)
        if code == 0:
            break
        assert code == -signal.SIGKILL
        kills += 1
    assert kills >= most // 2
    ledger = Ledger(tmp_path / "killed.sqlite")
    before = {row[0]: row for row in content(ledger) if row[5] is not None}
    assert before
    run(ledger)
    plain = opened(tmp_path / "plain.sqlite", cycles)
    run(plain)
    assert content(ledger) == content(plain)
    assert all(row == before.get(row[0], row) for row in content(ledger))  # what was written stayed as it was
    assert ledger._db.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_drivers_at_once_share_the_games(tmp_path: Path) -> None:
    """Three processes race to make the ledger, to lease, to finish and to add rounds."""
    config = Config.of({**CONFIG, "schedule": "swiss", "players": dict.fromkeys("abcdefgh", "random"),
                        "cycles": 50, "rounds": 4})  # fmt: skip

    def drive() -> None:
        ledger = open_ledger(config, tmp_path / "shared.sqlite")
        played = []
        run(ledger, played.append)
        (tmp_path / f"{os.getpid()}.played").write_text(str(sum(played)))

    assert [ended(number) for number in [child(drive) for _ in range(3)]] == [0, 0, 0]
    shared = Ledger(tmp_path / "shared.sqlite")
    plain = open_ledger(config, tmp_path / "plain.sqlite")
    run(plain)
    assert content(shared) == content(plain)
    played = [int(path.read_text()) for path in tmp_path.glob("*.played")]
    assert sum(played) == len(shared.games()) == 4 * 4 * 50
    assert not list(tmp_path.glob(".*"))


def limited(path: Path, spare: int, what: Callable[[], object]) -> Callable[[], object]:
    """Does something where no file can grow beyond the size of ``path`` and a little more, as on a full disk."""

    def play() -> object:
        size = max((p.stat().st_size for p in path.parent.glob(path.name + "*")), default=0)
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size + spare, size + spare))
        return what()

    return play


@pytest.mark.parametrize("spare", [0, 8_000, 60_000])
def test_a_disk_that_is_full_costs_nothing(tmp_path: Path, spare: int) -> None:
    path = tmp_path / "a.sqlite"
    opened(path, 1200).close()
    assert ended(child(limited(path, spare, lambda: run(Ledger(path))))) == 3  # an error, which says what to do
    ledger = Ledger(path)
    run(ledger)
    plain = opened(tmp_path / "plain.sqlite", 1200)
    run(plain)
    assert content(ledger) == content(plain)
    assert ledger._db.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_a_full_disk_leaves_no_half_of_a_ledger(tmp_path: Path) -> None:
    path = tmp_path / "a.sqlite"
    assert ended(child(limited(path, 20_000, lambda: opened(path, 2000)))) == 3
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_a_killed_command_goes_on_where_it_was(tmp_path: Path, sized: Callable[[int, int], int]) -> None:
    """The same by the command line, from a process that knows nothing."""
    most = sized(6, 50)
    text = 'env = "tic_tac_toe"\ncycles = %d\nrows = 16\nblock = 64\n[players]\na = "random"\nb = "random"\n'
    (tmp_path / "t.toml").write_text(text % (350 * most))
    command = [sys.executable, "-m", "marlenv.cli", "tournament", "run", str(tmp_path / "t.toml")]
    rng, kills, path = random.Random(1), 0, tmp_path / "t.sqlite"
    while kills < most:
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, env={**os.environ, "OMP_NUM_THREADS": "1"})
        while not path.exists() and process.poll() is None:
            time.sleep(0.01)
        try:
            process.wait(rng.uniform(0.05, 3.0))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            kills += 1
            continue
        assert process.returncode == 0
        break
    assert kills >= most // 2
    ledger = Ledger(path)
    run(ledger)
    plain = open_ledger(Config.read(tmp_path / "t.toml"), tmp_path / "plain.sqlite")
    run(plain)
    assert content(ledger) == content(plain)
