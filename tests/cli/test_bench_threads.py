"""``marlenv bench threads`` plays the same on both sides, each with its threads, and leaves their number alone."""

from __future__ import annotations

import multiprocessing
import os
import threading
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import pytest
import torch

from marlenv import EnvBase
from marlenv.cli.benches import threads
from marlenv.errors import SpecError


@pytest.mark.slow
def test_both_sides_play_as_many_steps_with_their_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    played, before, rollout = [], torch.get_num_threads(), EnvBase.rollout

    def noted(env: Any, steps: int, *args: Any, **options: Any) -> Any:
        data = rollout(env, steps, *args, **options)
        played.append((torch.get_num_threads(), tuple(data.shape)))
        return data

    monkeypatch.setattr(EnvBase, "rollout", noted)
    [figure] = threads.measure(1, only="tic_tac_toe,1024,rollout")
    assert figure.what == "tic_tac_toe B=1024 rollout"
    assert figure.peer_name == "one thread"
    turns = 3 * 4 * threads.TURN[1024]  # games have four times as many
    assert sorted(played) == [(1, (1024, 64))] * turns + [(2, (1024, 64))] * turns
    assert torch.get_num_threads() == before
    played.clear()
    [figure] = threads.measure(1, only="tic_tac_toe,1024,long")
    assert figure.what == "tic_tac_toe B=1024 long rollout"
    assert sorted(played) == [(1, (1024, 256))] * (turns // 4) + [(2, (1024, 256))] * (turns // 4)


@pytest.mark.slow
def test_games_are_stepped_by_hand_too() -> None:
    assert [one.what for one in threads.measure(1, only="connect_four,1024")] == [
        "connect_four B=1024 rollout",
        "connect_four B=1024 long rollout",
        "connect_four B=1024 steps",
        "connect_four B=1024 two processes",
    ]
    with pytest.raises(SpecError, match="--only knows"):
        threads.measure(1, only="ludo")


@pytest.mark.slow
def test_a_process_has_a_core_to_itself_and_one_thread() -> None:
    core = max(os.sched_getaffinity(0))
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, context, threads._begin_apart, (core, "tic_tac_toe", 1024)) as worker:
        assert worker.submit(threads._turn_apart).result() == 4 * threads.TURN[1024] * 64
        assert worker.submit(torch.get_num_threads).result() == 1
        assert worker.submit(os.sched_getaffinity, 0).result() == {core}


def test_what_the_machine_gives_is_measured_on_either_side(monkeypatch: pytest.MonkeyPatch) -> None:
    multiplied, mm = [], torch.mm

    def noted(*args: Any, **options: Any) -> Any:
        multiplied.append((threading.current_thread().name, torch.get_num_threads()))
        return mm(*args, **options)

    monkeypatch.setattr(torch, "mm", noted)
    before = torch.get_num_threads()
    monkeypatch.setattr(threads, "LARGE", 1 << 20)
    products, writes = threads.measure(2, only="machine")
    assert (products.unit, writes.unit) == ("us/product", "us/MiB")
    assert writes.ours > 0
    assert writes.peer > 0
    assert len(multiplied) == 3 * (2 + 1) * threads.PRODUCTS
    assert len({name for name, _ in multiplied}) == 2
    assert {many for _, many in multiplied} == {1}
    assert torch.get_num_threads() == before
