"""Tensordict modules that rollouts call by their module: what comes of it is what calling them would give."""

import contextlib
import copy
import sys

import pytest
import torch
from tensordict import LazyStackedTensorDict, TensorDict
from tensordict.nn import (
    InteractionType,
    ProbabilisticTensorDictModule,
    ProbabilisticTensorDictSequential,
    TensorDictModule,
    TensorDictSequential,
    dispatch,
    set_interaction_type,
    set_skip_existing,
)
from tensordict.nn.probabilistic import interaction_type
from torch import nn
from torch.distributions import Normal

from marlenv.envs.modules import call
from marlenv.registration import make

SEEN, ACTED = ("agents", "observation"), ("agents", "action")
LOC, SCALE = ("agents", "loc"), ("agents", "scale")


def data():
    draw = torch.Generator().manual_seed(0)
    agents = TensorDict({"observation": torch.randn(5, 3, 4, generator=draw)}, [5, 3])
    return TensorDict({"agents": agents, "state": torch.randn(5, 4, generator=draw)}, [5])


def net(out=2):
    torch.manual_seed(0)
    return nn.Linear(4, out)


def two(x):
    return x[..., :2], x[..., 2:].exp()


def mode(x):
    """What a module finds set while it runs."""
    which = -1 if interaction_type() is None else list(InteractionType).index(interaction_type())
    return torch.full_like(x[..., :2], which), x[..., :2].exp()


def refuse(x):
    raise ValueError("refused, None the less")


def module(function=None, in_keys=(SEEN,), out_keys=(ACTED,), **options):
    return TensorDictModule(function or net(), list(in_keys), list(out_keys), **options)


def hooked(policy, on=lambda policy: policy):
    on(policy).register_forward_hook(lambda *_: print("hook"))
    return policy


def seen_before(policy):
    policy.register_forward_pre_hook(lambda m, args: print("before", type(args[0]).__name__))
    return policy


def replaced(policy):
    inner = policy.forward
    policy.forward = lambda td: inner(td).set("extra", torch.ones(5))
    return policy


def actor(first=two, kind=ProbabilisticTensorDictModule, out_key=ACTED, seen=None, **options):
    how = {
        "distribution_class": Normal,
        "default_interaction_type": InteractionType.RANDOM,
        "return_log_prob": True,
        "log_prob_key": ("agents", "log_prob"),
    }
    sampler = kind(seen or {"loc": LOC, "scale": SCALE}, [out_key], **how | options)
    return ProbabilisticTensorDictSequential(module(first, out_keys=[LOC, SCALE]), sampler)


class Own(TensorDictModule):
    def forward(self, td):
        return super().forward(td).set("own", torch.ones(5))


class OwnWrites(TensorDictModule):
    def _call_module(self, tensors, **kwargs):
        return 2 * super()._call_module(tensors, **kwargs)


class OwnSampler(ProbabilisticTensorDictModule):
    def forward(self, td, **how):
        return super().forward(td, **how).set("own", torch.ones(5))


class OwnDispatched(ProbabilisticTensorDictModule):
    @dispatch(auto_batch_size=False)
    def forward(self, tensordict, tensordict_out=None, _requires_sample=True):
        out = super().forward(tensordict, tensordict_out, _requires_sample=_requires_sample)
        return out.set("own", torch.full((5,), 2.0))


class OwnReads(ProbabilisticTensorDictModule):
    """Keeps the data from which it made a distribution."""

    def get_dist(self, td):
        self.kept = td
        return super().get_dist(td.set("read", torch.ones(5)))


class KeepsDispatched(ProbabilisticTensorDictModule):
    @dispatch(auto_batch_size=False)
    def forward(self, tensordict, tensordict_out=None, _requires_sample=True):
        self.kept = tensordict
        return super().forward(tensordict, tensordict_out, _requires_sample=_requires_sample)


class CalledSampler(ProbabilisticTensorDictModule):
    def __call__(self, td, **how):
        return super().__call__(td, **how).set("called", torch.ones(5))


class Wide(Normal):
    """Draws one number too many rows."""

    def rsample(self, sample_shape=()):
        return super().rsample((2,)).flatten(0, 1)

    def log_prob(self, value):
        return value


def reading(policy):
    """The sampler's reads are replaced on the module itself."""
    inner = policy[-1].get_dist
    policy[-1].get_dist = lambda td: inner(td.set("read", torch.ones(5)))
    return policy


def replaced_sampler(policy):
    inner = policy[-1].forward
    policy[-1].forward = lambda td, **how: inner(td, **how).set("extra", torch.ones(5))
    return policy


class Collecting(nn.Module):
    """A policy that is no tensordict module."""

    def forward(self, td):
        return td.set("action", td["state"])


POLICIES = {
    "linear": module,
    "function": lambda: module(lambda x: -x),
    "two of it": lambda: module(two, out_keys=[LOC, SCALE]),
    "one ignored": lambda: module(two, out_keys=["_", ACTED]),
    "a list": lambda: module(lambda x: [x]),
    "a dict": lambda: module(lambda x: {"action": x}, out_keys=["action"]),
    "a tensordict": lambda: module(lambda x: TensorDict({"a": x}, x.shape[:1]), out_keys=["made"]),
    "a parameter": lambda: module(nn.Parameter),
    "a number": lambda: module(lambda x: 3.0, out_keys=["number"]),
    "an exception": lambda: module(lambda x: ValueError("a value")),
    "exceptions": lambda: module(lambda x: (ValueError("one"), ValueError("two")), out_keys=[LOC, SCALE]),
    "nothing": lambda: module(lambda x: None, out_keys=[]),
    "nothing wanted": lambda: module(lambda x: None),
    "too many": lambda: module(two),
    "too few": lambda: module(out_keys=[LOC, SCALE]),
    "another size": lambda: module(lambda x: x[:2]),
    "only the second fits not": lambda: module(lambda x: (x, x[:2]), out_keys=[LOC, SCALE]),
    "a new place": lambda: module(out_keys=[("others", "deep", "action")]),
    "under a tensor": lambda: module(out_keys=[("state", "action")]),
    "missing": lambda: module(in_keys=["nowhere"]),
    "read under a tensor": lambda: module(in_keys=[("state", "observation")]),
    "missing and refused": lambda: module(refuse, in_keys=["nowhere"]),
    "strict": lambda: module(in_keys=["nowhere"], strict=True),
    "two inputs": lambda: module(lambda x, s: x + s.unsqueeze(1), in_keys=[SEEN, "state"]),
    "a tensordict in": lambda: module(lambda td: td["observation"], in_keys=["agents"]),
    "refused": lambda: module(refuse),
    "by name": lambda: TensorDictModule(lambda s, x: x, {"x": SEEN, "s": "state"}, [ACTED]),
    "a method": lambda: module(net(), method="forward"),
    "more arguments": lambda: module(lambda x, y: x * y, method_kwargs={"y": 2}),
    "not in place": lambda: module(inplace=False),
    "into an empty one": lambda: module(inplace="empty"),
    "selected": lambda: module(two, out_keys=[LOC, SCALE]).select_out_keys(SCALE),
    "a hook": lambda: hooked(module()),
    "a hook before": lambda: seen_before(module()),
    "a hook of the net": lambda: hooked(module(), lambda policy: policy.module),
    "replaced": lambda: replaced(module()),
    "own forward": lambda: Own(net(), [SEEN], [ACTED]),
    "own call": lambda: OwnWrites(net(), [SEEN], [ACTED]),
    "no tensordict module": Collecting,
    "a module in it": lambda: module(TensorDictModule(net(), ["x"], ["y"])),
    "sequence": lambda: TensorDictSequential(module(net(4), out_keys=["h"]), module(two, ["h"], [LOC, SCALE])),
    "named": lambda: TensorDictSequential({"one": module(out_keys=["h"]), "two": module(two, ["h"], [LOC, SCALE])}),
    "empty": TensorDictSequential,
    "sequence refused": lambda: TensorDictSequential(module(), module(refuse, out_keys=["h"])),
    "inside refused": lambda: TensorDictSequential(module(), TensorDictSequential(module(refuse))),
    "named refused": lambda: TensorDictSequential({"one": module(), "two": module(refuse)}),
    "sequence selected": lambda: TensorDictSequential(module(two, out_keys=[LOC, SCALE])).select_out_keys(LOC),
    "some selected": lambda: TensorDictSequential(module(), selected_out_keys=[ACTED]),
    "sequence tolerant": lambda: TensorDictSequential(module(), module(in_keys=["no"]), partial_tolerant=True),
    "sequence not in place": lambda: TensorDictSequential(module(), inplace=False),
    "sequence in place": lambda: TensorDictSequential(module(inplace="empty"), inplace=True),
    "others in it": lambda: TensorDictSequential(module(inplace=False), module(net(), in_keys=[ACTED])),
    "sequence hooked": lambda: hooked(TensorDictSequential(module())),
    "second hooked": lambda: hooked(TensorDictSequential(module(), module()), lambda policy: policy.module[1]),
    "actor": actor,
    "actor's mode": lambda: actor(mode),
    "actor refused": lambda: actor(refuse),
    "actor hooked": lambda: hooked(actor()),
    "sampler hooked": lambda: hooked(actor(), lambda policy: policy.module[-1]),
    "sampler's own": lambda: actor(kind=OwnSampler),
    "sampler's own by dispatch": lambda: actor(kind=OwnDispatched),
    "sampler's own call": lambda: actor(kind=CalledSampler),
    "sampler replaced": lambda: replaced_sampler(actor()),
    "first of it hooked": lambda: hooked(actor(), lambda policy: policy.module[0]),
    "sampler's own reads": lambda: actor(kind=OwnReads),
    "sampler's reads replaced": lambda: reading(actor()),
    "no log prob": lambda: actor(return_log_prob=False, log_prob_key=None),
    "sampled to a new place": lambda: actor(out_key=("others", "deep", "action")),
    "sampled under a tensor": lambda: actor(out_key=("state", "action")),
    "log prob in a new place": lambda: actor(log_prob_key=("others", "log_prob")),
    "sampled over": lambda: actor(out_key=SEEN),
    "reads what is missing": lambda: actor(seen={"loc": LOC, "scale": "nowhere"}),
    "reads under a tensor": lambda: actor(seen={"loc": LOC, "scale": ("state", "scale")}),
    "reads a tensordict": lambda: actor(seen={"loc": LOC, "scale": "agents"}),
    "samples of another size": lambda: actor(distribution_class=Wide),
    "no generator under its key": lambda: actor(generator="state"),
    "many samples": lambda: actor(num_samples=3),
    "negative scale": lambda: actor(lambda x: (x, -x.exp())),
}
CONTEXTS = {
    "plain": lambda: set_skip_existing(False),
    "random": lambda: set_interaction_type(InteractionType.RANDOM),
    "mean": lambda: set_interaction_type(InteractionType.MEAN),
    "existing": lambda: set_skip_existing(True),
}


def outcome(do, policy, td, capsys):
    """What a policy returned, or raised with all that is said of it; what it left in the data; what it printed."""
    torch.manual_seed(1)
    try:
        out = do(policy, td)
        result = (out is td, type(out), plain(out) if out is not None else None)
    except Exception as error:
        cause = error.__cause__
        result = (type(error), str(error), getattr(error, "__notes__", None), type(cause), shown(cause))
    return result, plain(td), capsys.readouterr().out


def shown(cause):
    return None if cause is None else str(cause).split("lambda")[0].split(" at 0x")[0]


def plain(td):
    return (
        {key: (type(x), x.shape, str(x.tolist())) for key, x in td.items(True, True)},
        td.batch_size,
        set(map(str, td.keys(True))),
    )


@pytest.mark.parametrize("around", CONTEXTS)
@pytest.mark.parametrize("name", POLICIES)
def test_equals_calling_it(name, around, capsys):
    made = POLICIES[name]()
    with CONTEXTS[around]():
        want = outcome(lambda policy, td: policy(td), made, data(), capsys)
        assert outcome(call, made, data(), capsys) == want


@pytest.mark.parametrize(
    "td",
    [
        lambda: data().lock_(),
        lambda: LazyStackedTensorDict(*data().unbind(0), stack_dim=0),
        lambda: data().set("agents", LazyStackedTensorDict(*data()["agents"].unbind(1), stack_dim=1)),
        lambda: data().to("cpu"),
        lambda: data()[:2].set(ACTED, torch.zeros(2, 3, 2)),
    ],
    ids=["locked", "lazy", "lazy inside", "on a device", "again"],
)
@pytest.mark.parametrize("name", ["linear", "two of it", "refused", "sequence", "actor"])
def test_data_of_every_kind(name, td, capsys):
    want = outcome(lambda policy, td: policy(td), POLICIES[name](), td(), capsys)
    assert outcome(call, POLICIES[name](), td(), capsys) == want


@pytest.mark.parametrize("name", POLICIES)
def test_a_module_is_called_once(name):
    """Where what it returns goes another way than thought at first, it is not asked again."""
    made, counts = POLICIES[name](), []
    for one in made.modules() if isinstance(made, nn.Module) else ():
        if type(one) is TensorDictModule and one.method is None:
            one.module = Counting(one.module, counts)
    results = []
    for do in (lambda policy, td: policy(td), call):
        counts.clear()
        with contextlib.suppress(Exception):  # told apart above
            do(made, data())
        results.append(len(counts))
    assert results[0] == results[1]


class Counting(nn.Module):
    def __init__(self, inner, counts):
        super().__init__()
        self.inner, self.counts = inner, counts

    def forward(self, *args, **kwargs):
        self.counts.append(1)
        return self.inner(*args, **kwargs)


def test_hooks_on_all_modules_are_kept():
    handle, seen = nn.modules.module.register_module_forward_hook(lambda m, *_: seen.append(type(m).__name__)), []
    try:
        for do in (lambda policy, td: policy(td), call):
            seen.clear()
            do(TensorDictSequential(module()), data())
            assert seen == ["Linear", "TensorDictModule", "TensorDictSequential"]
    finally:
        handle.remove()


@pytest.mark.parametrize("kind", [TensorDictModule, TensorDictSequential, ProbabilisticTensorDictSequential])
def test_methods_that_are_put_on_a_class_later_are_called(kind, monkeypatch):
    made = {TensorDictModule: module, TensorDictSequential: lambda: TensorDictSequential(module())}.get(kind, actor)()
    call(made, data())
    seen, forward = [], kind.forward
    monkeypatch.setattr(kind, "forward", lambda self, td, **how: (seen.append(type(self)), forward(self, td, **how))[1])
    for do in (lambda policy, td: policy(td), call):
        seen.clear()
        do(made, data())
        assert seen == [kind]


def test_compiled_modules_are_called_as_they_are():
    made = module()
    made.compile(backend="eager")
    assert call(made, data())[ACTED].equal(made(data())[ACTED])
    assert torch.compile(module(), backend="eager")(data())[ACTED].equal(call(module(), data())[ACTED])


def forwards(do):
    """How often ``forward`` of a tensordict module or a sequence, or what looks for arguments that are no tensordicts,
    runs while something is done.
    """
    codes, count = {ProbabilisticTensorDictModule.forward.__code__}, 0
    for kind in (TensorDictModule, TensorDictSequential, ProbabilisticTensorDictSequential):
        inner = kind.forward
        while hasattr(inner, "__wrapped__"):
            inner = inner.__wrapped__
        codes.add(inner.__code__)

    def look(frame, event, arg):
        nonlocal count
        count += event == "call" and frame.f_code in codes

    sys.setprofile(look)
    try:
        do()
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize("name", ["linear", "sequence", "actor"])
def test_rollouts_take_the_short_way(name):
    env = make("simple_spread", num_envs=5, seed=0)
    size = env.full_observation_spec[SEEN].shape[-1]
    act = env.full_action_spec[ACTED].shape[-1]
    torch.manual_seed(0)
    linear = module(nn.Linear(size, act))
    head = {
        "linear": lambda: linear,
        "sequence": lambda: TensorDictSequential(linear, module(nn.Tanh(), [ACTED])),
        "actor": lambda: actor(nn.Sequential(nn.Linear(size, 2 * act), Halves())),
    }[name]()
    found = []
    for hook in (False, True):
        if hook:
            head.register_forward_hook(lambda *_: None)
        env.set_seed(0)
        torch.manual_seed(2)
        calls = forwards(lambda: found.append(env.rollout(4, head, break_when_any_done=False)))
        assert (calls > 0) is hook
    one, other = found
    assert set(one.keys(True, True)) == set(other.keys(True, True))
    assert all(torch.equal(one[key], other[key]) for key in one.keys(True, True))


def watching(policy, kept):
    """The sampler's reads are replaced on the module itself, and keep what they are given."""
    inner = policy[-1].get_dist
    policy[-1].get_dist = lambda td: (kept.append(td), inner(td))[1]
    return policy


def test_methods_of_ones_own_are_given_the_data_themselves():
    """They may keep them, or ask whether they are the same."""
    kept, td = [], data()
    call(watching(actor(), kept), td)
    for kind in (OwnReads, KeepsDispatched):
        made = actor(kind=kind)
        call(made, td)
        kept.append(made[-1].kept)
    assert len(kept) == 3
    assert all(one is td for one in kept)


def test_an_actor_takes_few_python_calls():
    """155 of them, where its call takes 463."""
    made, td, count = actor(), data(), 0

    def look(frame, event, arg):
        nonlocal count
        count += event == "call"

    with torch.no_grad():
        call(made, td)
        sys.setprofile(look)
        try:
            call(made, td)
        finally:
            sys.setprofile(None)
    assert count < 230


class Halves(nn.Module):
    def forward(self, x):
        loc, scale = x.chunk(2, -1)
        return loc, scale.exp()


def test_torchrls_actors_take_it_too():
    modules = pytest.importorskip("torchrl.modules")
    head = TensorDictModule(nn.Sequential(net(4), modules.NormalParamExtractor()), [SEEN], [LOC, SCALE])
    how = {"distribution_class": modules.TanhNormal, "return_log_prob": True}
    how["default_interaction_type"] = InteractionType.RANDOM  # else TorchRL goes on to tensordict's own
    made = modules.ProbabilisticActor(head, in_keys={"loc": LOC, "scale": SCALE}, out_keys=[ACTED], **how)
    other, results = copy.deepcopy(made), []
    assert forwards(lambda: results.append(call(made, data()))) == 0
    assert forwards(lambda: results.append(other(data()))) > 0
    torch.manual_seed(3)
    first = call(made, data())
    torch.manual_seed(3)
    assert plain(first) == plain(other(data()))
