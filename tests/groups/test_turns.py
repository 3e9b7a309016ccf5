"""Turns: games written by hand, a reference in plain Python over random ones, and the whole of real games."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tensordict import NonTensorData, NonTensorStack, TensorDict

import marlenv
from marlenv import TurnView, compact_turns
from marlenv.errors import KeyMissing, ShapeError, SpecError, SpecTypeError, Unsupported
from marlenv.tensordicts import lazy
from marlenv.testing.mocks import UnevenEnv

FLAGS = ("done", "terminated", "truncated")


def played(acts, rewards, died=None, ended=None, alive=True) -> TensorDict:
    """A rollout ``[1, T]`` of one group ``"g"``: lists per step of numbers per agent.

    Observations are ``10 t + agent`` before and ``10 (t + 1) + agent`` after step ``t``. ``died`` terminates an agent,
    ``ended`` is 1 where the episode terminates and 2 where it is truncated.
    """
    acts = torch.tensor(acts, dtype=torch.bool)
    steps, agents = acts.shape
    rewards = torch.tensor(rewards, dtype=torch.float32)
    died = torch.zeros(steps, agents) if died is None else torch.tensor(died)
    ended = torch.zeros(steps) if ended is None else torch.tensor(ended)
    seen = 10.0 * torch.arange(steps + 1).unsqueeze(-1) + torch.arange(agents)
    own = died.bool()
    nothing = torch.zeros(steps, agents, 1, dtype=torch.bool)
    group = TensorDict(
        {
            "observation": seen[:-1].unsqueeze(-1),
            "action": seen[:-1].unsqueeze(-1) + 0.5,
            "mask": acts,
            **dict.fromkeys(FLAGS, nothing),
        },
        [steps, agents],
    )
    following = TensorDict(
        {
            "observation": seen[1:].unsqueeze(-1),
            "reward": rewards.unsqueeze(-1),
            "mask": acts.roll(-1, 0),
            "done": own.unsqueeze(-1),
            "terminated": own.unsqueeze(-1),
            "truncated": nothing,
        },
        [steps, agents],
    )
    root = {"done": ended > 0, "terminated": ended == 1, "truncated": ended == 2}
    root = {name: flag.unsqueeze(-1) for name, flag in root.items()}
    start = {name: torch.zeros_like(flag) for name, flag in root.items()}
    return TensorDict({"g": group, **start, "next": TensorDict({"g": following, **root}, [steps])}, [steps]).unsqueeze(
        0
    )


def turns(td: TensorDict, agent: int, **options) -> list[tuple]:
    """The turns of one agent: observation, action, reward, next observation, and the flags that are set, by letter."""
    one = compact_turns(td, **options)["g"][0, agent]
    one = one[one["mask"]]
    letters = ["".join(f[0] + f[2] for f in FLAGS if step["next", f]) for step in one]
    nxt = one["next"]
    columns = one["observation"], one["action"], nxt["reward"], nxt["observation"]
    return list(zip(*(c.flatten().tolist() for c in columns), letters, strict=True))


TERMINATED, TRUNCATED = "dntr", "dntu"


def test_two_that_alternate() -> None:
    """The loser is paid at the winner's move."""
    td = played([[1, 0], [0, 1], [1, 0]], [[0, 0], [0, 0], [1, -1]], ended=[0, 0, 1])
    assert turns(td, 0) == [(0, 0.5, 0, 20, ""), (20, 20.5, 1, 30, TERMINATED)]
    assert turns(td, 1) == [(11, 11.5, -1, 31, TERMINATED)]


def test_a_player_who_dies_is_paid_after_its_death_but_ends_with_it() -> None:
    td = played(
        [[1, 1], [1, 1], [0, 1], [0, 1]],
        [[1, 0], [2, 0], [4, 1], [8, 1]],
        died=[[0, 0], [1, 0], [0, 0], [0, 0]],
        ended=[0, 0, 0, 2],
    )
    td["g", "done"][0, 2:, 0] = td["g", "terminated"][0, 2:, 0] = True
    assert turns(td, 0) == [(0, 0.5, 1, 10, ""), (10, 10.5, 14, 20, TERMINATED)]
    assert turns(td, 1) == [
        (1, 1.5, 0, 11, ""),
        (11, 11.5, 0, 21, ""),
        (21, 21.5, 1, 31, ""),
        (31, 31.5, 1, 41, TRUNCATED),
    ]
    discount = compact_turns(td, gamma=0.5)["g", "next", "discount"][0, 0, :2, 0]
    assert discount.tolist() == [0.5, 0.5]  # to its death, and not to the end


def test_a_player_who_spawns_late() -> None:
    """What it is paid before it is there is undecided, and not lost."""
    td = played([[1, 0], [1, 0], [1, 1], [1, 1]], [[0, 5], [0, 6], [0, 1], [0, 2]], ended=[0, 0, 0, 1])
    assert turns(td, 1) == [(21, 21.5, 1, 31, ""), (31, 31.5, 2, 41, TERMINATED)]
    assert compact_turns(td)["undecided", "g"].flatten().tolist() == [0, 11]


def test_one_who_dies_and_comes_back() -> None:
    td = played([[1, 1], [0, 1], [1, 1]], [[1, 0], [2, 0], [4, 0]], died=[[1, 0], [0, 0], [0, 0]], ended=[0, 0, 2])
    assert turns(td, 0) == [(0, 0.5, 3, 10, TERMINATED), (20, 20.5, 4, 30, TRUNCATED)]


def test_all_at_once() -> None:
    td = played([[1, 1], [1, 1]], [[1, 2], [3, 4]], ended=[0, 1])
    assert turns(td, 0) == [(0, 0.5, 1, 10, ""), (10, 10.5, 3, 20, TERMINATED)]
    assert turns(td, 1) == [(1, 1.5, 2, 11, ""), (11, 11.5, 4, 21, TERMINATED)]


def test_a_player_who_moves_twice() -> None:
    """As after a bonus turn: its turns are its own moves, the other's reaches over both."""
    td = played([[0, 1], [1, 0], [1, 0], [0, 1]], [[0, 1], [0, 2], [0, 4], [0, 8]], ended=[0, 0, 0, 1])
    assert turns(td, 0) == [(10, 10.5, 0, 20, ""), (20, 20.5, 0, 40, TERMINATED)]
    assert turns(td, 1) == [(1, 1.5, 7, 31, ""), (31, 31.5, 8, 41, TERMINATED)]


def test_episodes_follow_one_another() -> None:
    """Rewards never cross the end of an episode; the last decision in the data is cut off."""
    td = played(
        [[1, 0], [0, 1], [0, 1], [1, 0], [0, 1]], [[1, 1], [1, 1], [3, 3], [1, 1], [1, 1]], ended=[0, 1, 0, 0, 0]
    )
    assert turns(td, 0) == [(0, 0.5, 2, 20, TERMINATED), (30, 30.5, 2, 50, TRUNCATED)]
    assert turns(td, 1) == [(11, 11.5, 1, 21, TERMINATED), (21, 21.5, 4, 41, ""), (41, 41.5, 1, 51, TRUNCATED)]
    assert compact_turns(td)["undecided", "g"].flatten().tolist() == [3, 1]


def test_the_reward_within_a_turn_is_discounted() -> None:
    td = played([[1], [0], [0], [1]], [[1], [1], [1], [1]], ended=[0, 0, 0, 1])
    assert [step[2] for step in turns(td, 0, gamma=0.5)] == [1.75, 1]
    assert compact_turns(td, gamma=0.5)["g", "next", "discount"].flatten().tolist() == [0.125, 0.5]


def test_a_reward_without_end_stays_with_whom_it_is_for() -> None:
    lost = float("-inf")
    td = played([[1, 0], [0, 1], [1, 0]], [[1, 2], [lost, lost], [4, lost]], ended=[0, 0, 1])
    assert [[step[2] for step in turns(td, agent)] for agent in (0, 1)] == [[lost, 4], [lost]]
    view = TurnView()
    for step in td.unbind(1):
        view.add(step)
    for undecided in (compact_turns(td)["undecided", "g"], view.undecided["g"]):
        assert undecided.flatten().tolist() == [0, 2]


def test_padding_is_zero_and_allows_everything() -> None:
    td = marlenv.make("tic_tac_toe", num_envs=4, seed=0).rollout(40, break_when_any_done=False)
    o = compact_turns(td)["o"]
    empty = ~o["mask"]
    assert empty.any()
    assert o["action_mask"][empty].all()
    assert not any(o[key][empty].any() for key in o.keys(True, True) if "action_mask" not in key)
    assert o.names[-1] == "time"


def reference(td: TensorDict, agent: int) -> tuple[list[tuple], float]:
    """The turns of an agent, one step after the other; and what it was paid without one."""
    found, now, undecided = [], None, 0.0
    for t in range(td.shape[1]):
        if bool(td["g", "mask"][0, t, agent]) and not bool(td["g", "done"][0, t, agent]):
            now = {"at": t, "reward": 0.0, "end": None}
            found.append(now)
        reward = td["next", "g", "reward"][0, t, agent, 0].item()
        if now is None:
            undecided += reward
        else:
            now["reward"] += reward
            if now["end"] is None:
                own, over = td["next", "g", "done"][0, t, agent].item(), td["next", "done"][0, t].item()
                level = td["next", "g"][0, t, agent] if own else td["next"][0, t]
                now["last"] = t
                if own or over:
                    now["end"] = (t, level["terminated"].item(), level["truncated"].item())
        if td["next", "done"][0, t]:
            now = None
    rows = []
    for one in found:
        end = one["end"]
        cut = end is None and one is found[-1]
        t, terminated, truncated = end or (one["last"], False, cut)
        rows.append((one["at"], t, one["reward"], end is not None or cut, terminated, truncated))
    return rows, undecided


@st.composite
def games(draw):
    steps, agents = draw(st.integers(1, 9)), draw(st.integers(1, 3))
    grid = lambda low, high: draw(  # noqa: E731
        st.lists(st.lists(st.integers(low, high), min_size=agents, max_size=agents), min_size=steps, max_size=steps)
    )
    ended = draw(st.lists(st.sampled_from([0, 0, 0, 1, 2]), min_size=steps, max_size=steps))
    return played(grid(0, 1), grid(-3, 3), draw(st.just(None) | st.just(grid(0, 1))), ended)


@settings(max_examples=60)
@given(games())
def test_it_is_what_a_loop_over_steps_gives(td) -> None:
    out, agents = compact_turns(td), td["g", "mask"].shape[-1]
    returns = td["next", "g", "reward"].sum(1)
    torch.testing.assert_close(out["g", "next", "reward"].sum(2) + out["undecided", "g"], returns)
    for agent in range(agents):
        rows, undecided = reference(td, agent)
        one = out["g"][0, agent]
        one = one[one["mask"]]
        nxt = one["next"]
        columns = [
            one["observation"] // 10,
            nxt["observation"] // 10 - 1,
            nxt["reward"],
            *(nxt[name] for name in FLAGS),
        ]
        got = list(zip(*(c.flatten().tolist() for c in columns), strict=True))
        assert got == rows
        assert out["undecided", "g"][0, agent].item() == undecided


@settings(max_examples=40)
@given(games())
def test_online_gives_the_same(td) -> None:
    """In the order in which decisions are settled; the data's own end cuts what is not settled."""
    view, given_ = TurnView(gamma=0.5), []
    for step in td.unbind(1):
        given_.append(view.add(step)["g"])
    undecided = view.undecided["g"]
    given_.append(view.flush()["g"])
    online, offline = torch.cat(given_), compact_turns(td, gamma=0.5)
    torch.testing.assert_close(undecided, offline["undecided", "g"])
    for agent in range(td["g", "mask"].shape[-1]):
        a = online[online["index"][:, 1] == agent]
        b = offline["g"][0, agent]
        b = b[b["mask"]]
        assert len(a) == len(b)
        for key in b.keys(True, True):
            settled = slice(0, -1) if key in (("next", "done"), ("next", "truncated")) else slice(None)
            torch.testing.assert_close(a[key][settled], b[key][settled])


@pytest.mark.parametrize("key", ["mask", ("collector", "mask")])
def test_padding_is_no_step(key) -> None:
    """By hand: what stands in the padding is neither a decision nor paid, and the decision before it is cut off."""
    td = played([[1], [1], [0], [1], [0]], [[1], [2], [100], [4], [5]], ended=[0, 0, 1, 0, 0])
    steps = torch.tensor([[True, True, False, True, True]])
    td[key] = steps if key == "mask" else steps.unsqueeze(-1)
    td["next", "g", "mask"][0, -1] = False
    by_hand = [(0, 0.5, 1, 10, ""), (10, 10.5, 2, 20, TRUNCATED), (30, 30.5, 9, 50, TRUNCATED)]
    assert turns(td, 0) == by_hand
    assert compact_turns(td)["undecided", "g"].item() == 0
    view = TurnView()
    online = torch.cat([*(view.add(step)["g"] for step in td.unbind(1)), view.flush()["g"]])
    assert online["next", "reward"].flatten().tolist() == [1, 2, 9]
    assert online["next", "observation"].flatten().tolist() == [10, 20, 50]
    assert online["next", "truncated"].flatten().tolist() == [False, True, True]
    td["g", "mask"][0, 2, 0] = True
    assert turns(td, 0) == by_hand


@pytest.mark.parametrize(
    ("name", "options", "steps"), [("simple_tag", {"max_steps": 5}, 7), ("tic_tac_toe", {}, 12), ("kuhn_poker", {}, 7)]
)
def test_split_trajectories_have_the_turns_of_the_pieces(name: str, options, steps: int) -> None:
    data = marlenv.make(name, num_envs=3, seed=0, **options).rollout(steps, break_when_any_done=False)
    data["collector"] = TensorDict({}, data.shape)
    pieces = marlenv.split_trajectories(data)
    mask = pieces["collector", "mask"]
    assert mask.sum() == 3 * steps < mask.numel()
    whole, count = compact_turns(pieces), 0
    for i, length in enumerate(mask.sum(1).tolist()):
        alone = compact_turns(pieces[i : i + 1, :length].exclude("collector"))
        for group in [one for one in alone.keys() if one != "undecided"]:
            assert torch.equal(whole["undecided", group][i], alone["undecided", group][0])
            for agent in range(alone[group].shape[1]):
                a, b = (one[one["mask"]] for one in (whole[group][i, agent], alone[group][0, agent]))
                count += len(b)
                assert all(torch.equal(a[key], b[key]) for key in b.keys(True, True))
    assert count == 3 * steps * (4 if name == "simple_tag" else 1)


def test_without_groups_padding_is_no_step_either() -> None:
    data = marlenv.testing.CountingEnv(max_steps=3).rollout(5, break_when_any_done=False)
    whole, plain = compact_turns(marlenv.split_trajectories(data))["agent"], compact_turns(data.unsqueeze(0))["agent"]
    assert whole["mask"].int().tolist() == [[1, 1, 1], [1, 1, 0]]
    assert plain["mask"].all()
    for key in plain.keys(True, True):
        assert torch.equal(whole[key][whole["mask"]], plain[key][plain["mask"]]), key


@pytest.mark.parametrize(
    "name", ["connect_four", "kuhn_poker", "hanabi", "simple_tag", "prisoners_dilemma", "backgammon"]
)
def test_returns_of_real_envs_stay(name: str) -> None:
    env = marlenv.make(name, num_envs=3, seed=1)
    td = env.rollout(80, break_when_any_done=False)
    out = compact_turns(td)
    for group in env.tree.keys:
        paid = out[group]["next", "reward"].sum(-2) + out["undecided", group]
        torch.testing.assert_close(paid, td["next", group, "reward"].sum(1))


@pytest.mark.parametrize("name", ["pettingzoo/tictactoe_v3", "open_spiel/tic_tac_toe"])
@pytest.mark.sim
def test_losers_of_other_peoples_games_are_paid(name: str) -> None:
    env = marlenv.make(name)
    env.set_seed(3)
    td = env.rollout(60, break_when_any_done=False)
    out, ends = compact_turns(td), td["next", "done"].flatten()
    last = int(ends.nonzero()[-1]) + 1
    for group in env.tree.keys:
        one = out[group]
        assert one["next", "terminated"].sum() == ends.sum() * one.shape[0]
        paid = (one["next", "reward"] * one["next", "terminated"]).sum(1)
        torch.testing.assert_close(paid, td["next", group, "reward"][:last].sum(0))


def test_every_game_of_tic_tac_toe_pays_its_loser() -> None:
    td = marlenv.make("tic_tac_toe", num_envs=64, seed=3).rollout(60, break_when_any_done=False)
    out = compact_turns(td)
    results = [out[seat]["next", "reward"][out[seat]["next", "terminated"]].sum().item() for seat in "xo"]
    assert results[0] == -results[1] != 0
    lost = out["o"]["next", "reward"] < 0
    assert lost.sum() == (td["next", "x", "reward"] > 0).sum()
    assert out["o"]["next", "terminated"][lost].all()


def test_a_tree_of_groups_and_groups_that_start_anew_by_themselves() -> None:
    from marlenv.testing.mocks import GroupedEnv

    env = GroupedEnv({"g": ["a", "b"], "h": ["c"]}, terminate={"a": 1, "c": 2}, root_flags=False, batch_size=[2])
    out = compact_turns(env.rollout(6, break_when_any_done=False))
    assert out["h", "next", "terminated"][0, 0, :, 0].nonzero().flatten().tolist() == [1, 3, 5]
    deep = GroupedEnv({"red": {"attack": ["a", "b"], "defence": ["c"]}, "blue": {"all": ["d"]}}, batch_size=[2])
    td = deep.rollout(4)
    out = compact_turns(td)
    assert torch.equal(out["red", "attack", "observation"], td["red", "attack", "observation"].transpose(1, 2))


def test_an_env_without_groups_is_one_agent() -> None:
    td = marlenv.testing.CountingEnv(max_steps=3).rollout(8, break_when_any_done=False)
    out = compact_turns(td)["agent"]
    assert torch.equal(out["next", "reward"], td["next", "reward"])
    assert out["next", "done"].flatten().nonzero().flatten().tolist() == [2, 5, 7]


def spoken(numbers: torch.Tensor):
    """The numbers ``[..., 1]`` as texts, each with a place of its own."""
    if numbers.ndim == 1:
        return NonTensorData(f"{numbers.item():g}")
    return NonTensorStack(*[spoken(row) for row in numbers])


def test_texts_go_where_numbers_go() -> None:
    acts = [[[1, 0], [0, 1], [1, 0], [1, 1], [0, 0]], [[0, 0], [0, 1], [0, 1], [1, 1], [0, 1]]]
    td = torch.cat([played(rows, [[1.0, 2.0]] * 5, ended=[0, 0, 1, 0, 0]) for rows in acts])
    td["g", "observation"][1] += 100
    for node in (td["g"], td["next", "g"]):
        node.set("said", spoken(node["observation"]))
        node.set(("deep", "said"), spoken(node["observation"]))
    turns = compact_turns(td)["g"]
    wanted = [[["0", "20", "30", None], ["11", "31", None, None]], [["130", *[None] * 3], ["111", "121", "131", "141"]]]
    assert turns.get("said").tolist() == turns.get("deep").get("said").tolist() == wanted
    assert turns["observation"][1, 1, :, 0].tolist() == [111, 121, 131, 141]
    ends = [["20", "30", "50", None], ["31", "51", None, None]]
    assert turns.get("next").get("said")[0].tolist() == ends
    view = TurnView()
    given = [view.add(step)["g"] for step in td.unbind(1)] + [view.flush()["g"]]
    assert 0 in map(len, given)
    assert sum(map(len, given)) == 10
    for data in [part for one in given if len(one) for part in (one, one["next"])]:
        assert data.get("said").tolist() == [f"{x:g}" for x in data["observation"].flatten().tolist()]


def test_what_cannot_be_indexed_is_named() -> None:
    steps = list(played([[1], [1]], [[1.0], [2.0]])[0].unbind(0))
    for size, step in enumerate(steps):
        step["g", "heard"] = torch.zeros(1, 2 + size)
    with pytest.raises(Unsupported, match=r"compact_turns: entry 'heard' is list, .* leave it out by td\.exclude"):
        compact_turns(lazy(steps, 0))


def test_agents_that_differ_stay_a_lazy_stack() -> None:
    env = UnevenEnv()
    td = env.rollout(5, break_when_any_done=False)
    (group,) = env.tree.keys
    out = compact_turns(td)[group]
    for i in range(out.shape[-2]):
        assert torch.equal(out[..., i, :]["observation"], td[group][..., i]["observation"])
    with pytest.raises(Unsupported, match="agents of group .* differ; put them into groups of their own"):
        TurnView().add(td[..., 0])


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: compact_turns(TensorDict({}, [3])), KeyMissing, "compact_turns: no 'next' entry; the data has"),
        (lambda: compact_turns(TensorDict({"next": TensorDict({})})), ShapeError, "those of one step; see TurnView"),
        (lambda: compact_turns(TensorDict({"next": {"x": torch.ones(3)}}, [3])), KeyMissing, "no reward under 'next'"),
        (lambda: compact_turns(TensorDict({"next": {"reward": torch.ones(3, 1)}}, [3])), KeyMissing, "no 'done' flag"),
        (lambda: TurnView(gamma=1.5), SpecError, "TurnView: gamma must be from 0 to 1, got 1.5"),
        (lambda: compact_turns(TensorDict({}, [3]), -1), SpecError, "compact_turns: gamma must be from 0 to 1, got -1"),
        (lambda: compact_turns(TensorDict({}, [3]), "a"), SpecTypeError, "gamma must be a number from 0 to 1, got 'a'"),
        (lambda: TurnView(gamma=None), SpecTypeError, "TurnView: gamma must be a number from 0 to 1, got None"),
        (lambda: compact_turns(None), SpecTypeError, "compact_turns: expected a tensordict, .*, got NoneType"),
        (lambda: TurnView().add(None), SpecTypeError, "TurnView.add: expected a tensordict, .*, got NoneType"),
    ],
)
def test_what_is_wrong_is_said(call, error, text: str) -> None:
    with pytest.raises(error, match=text):
        call()


def test_a_view_is_of_one_env() -> None:
    """What is refused changes nothing: the next step of its own env gives what it gives elsewhere."""
    steps = played([[1, 0], [0, 1], [1, 0]], [[1, 2], [3, 4], [5, 6]], ended=[0, 0, 1]).unbind(1)
    view, other = TurnView(), TurnView()
    for one in (view, other):
        one.add(steps[0])
    for wrong in (torch.cat([steps[1]] * 3), steps[1][0]):
        with pytest.raises(
            ShapeError, match=r"began with 'g' of \[1, 2\] \(rows and agents\), got .*; make one TurnView"
        ):
            view.add(wrong)
    for step in steps[1:]:
        assert (view.add(step)["g"] == other.add(step)["g"]).all()
