"""Who plays, and what is legal."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from marlenv.groups import alive_after, check_actions, masked_mean, open_rows

from marlenv.errors import IllegalAction

bits = st.lists(st.booleans(), min_size=12, max_size=12).map(lambda b: torch.tensor(b).reshape(2, 2, 3))
pair = st.lists(st.booleans(), min_size=4, max_size=4).map(lambda b: torch.tensor(b).reshape(2, 2))


@given(action_mask=bits, acts=pair, given_acts=st.booleans())
def test_open_rows_leaves_acting_rows_and_opens_the_others(action_mask, acts, given_acts):
    out = open_rows(action_mask, acts if given_acts else None)
    for row in range(2):
        for agent in range(2):
            legal = action_mask[row, agent]
            closed = not legal.any() or (given_acts and not acts[row, agent])
            assert out[row, agent].tolist() == ([True] * 3 if closed else legal.tolist())


@given(action_mask=bits, acts=pair, chosen=st.lists(st.integers(-1, 3), min_size=4, max_size=4))
def test_only_illegal_actions_of_acting_agents_raise(action_mask, acts, chosen):
    action = torch.tensor(chosen).reshape(2, 2)
    wrong = [
        (r, a)
        for r in range(2)
        for a in range(2)
        if acts[r, a] and not (0 <= action[r, a] < 3 and action_mask[r, a, action[r, a]])
    ]
    if not wrong:
        check_actions(action, action_mask, acts, "Env", ["x", "y"])
        return
    row, agent = wrong[0]
    with pytest.raises(
        IllegalAction, match=rf"Env: action {action[row, agent]} of agent '{'xy'[agent]}' in row \[{row}\]"
    ):
        check_actions(action, action_mask, acts, "Env", ["x", "y"])


def test_the_message_lists_what_is_legal():
    with pytest.raises(IllegalAction, match=r"^TicTacToe: action 1 of agent 'x' is illegal; legal are \[0, 2\]$"):
        check_actions(torch.tensor([1]), torch.tensor([[True, False, True]]), None, "TicTacToe", ["x"])
    wide = torch.ones(1, 50, dtype=torch.bool)
    with pytest.raises(IllegalAction, match=r"18, 19\] \.\.\.$"):
        check_actions(torch.tensor([99]), wide, None, "E", ["x"])


def test_the_dead_stay_dead():
    alive = torch.tensor([[True, True, False]])
    done = torch.tensor([[[True], [False], [False]]])
    assert alive_after(alive, done).tolist() == [[False, True, False]]


def test_mean_over_the_living():
    value = torch.tensor([[1.0, 3.0], [5.0, 7.0], [2.0, 2.0]])
    alive = torch.tensor([[True, True], [False, True], [False, False]])
    assert masked_mean(value, alive).tolist() == [2.0, 7.0, 0.0]
    assert masked_mean(value.unsqueeze(-1), alive).tolist() == [2.0, 7.0, 0.0]
    assert masked_mean(torch.tensor([2, 4]), torch.tensor([True, True])).item() == 3


def test_what_stands_where_nobody_lives_has_no_part_in_the_mean():
    alive = torch.tensor([[True, False], [False, False]])
    for odd in (float("nan"), float("inf")):
        value = torch.tensor([[4.0, odd], [odd, odd]], dtype=torch.float16)
        assert masked_mean(value, alive).tolist() == [4.0, 0.0]
        assert masked_mean(value, alive).dtype == torch.float16
    assert masked_mean(torch.tensor([True, False]), torch.tensor([True, True])).item() == 0.5
