"""Cases of views, of what looks along dimensions, of matrix products and of indices."""

import torch
import torch.nn.functional as F
from operation_cases import (
    INF,
    INT,
    NAN,
    PICKS,
    TABLE,
    X2,
    A,
    S,
    W,
    X,
    bits,
    case,
    cases,
    double,
    ints,
    small,
    tame,
    wild,
)

# --- views ---------------------------------------------------------------------------------------

Y = wild(2, 3)
cases(
    "views",
    [
        lambda x: x.reshape(x.shape[0], -1),
        lambda x: x.view(-1, 3).view(-1, 2, 3),
        lambda x: x.flatten(0, 1).unflatten(0, (-1, 2)) * 2,
        lambda x: x.reshape(-1).reshape(x.shape),
        lambda x: x.permute(0, 2, 1),
        lambda x: x.permute(1, 2, 0).permute(2, 0, 1),
        lambda x: x.transpose(1, 2),
        lambda x: x.transpose(0, -1).transpose(2, 0),
        lambda x: x.mT,
        lambda x: x[:, 0].t().t(),
        lambda x: x.movedim(-1, 1),
        lambda x: x.unsqueeze(1).squeeze(1),
        lambda x: x.unsqueeze(-1).squeeze(),
        lambda x: x[:, None, :, :].squeeze((1,)),
        lambda x: x[:, 1],
        lambda x: x[:, -1],
        lambda x: x[..., 0],
        lambda x: x[:, :, 1:],
        lambda x: x[:, :, :-1],
        lambda x: x[:, :, ::2],
        lambda x: x[:, 1:1],
        lambda x: x.narrow(2, 1, 2),
        lambda x: x.select(2, 1),
        lambda x: torch.cat(x.unbind(2), 1),
        lambda x: torch.cat(x.unbind(-2), -1),
        lambda x: x.split(2, 2),
        lambda x: x.split((1, 2), -1),
        lambda x: x.chunk(2, 1),
        lambda x: torch.cat(x.tensor_split(2, 2), 2),
        lambda x: x.unsqueeze(2).expand(-1, -1, 4, -1),
        lambda x: x[:, :1].expand(x.shape[0], 2, 3),
        lambda x: x[:, :, :1].expand_as(x),
        lambda x: x.diagonal(0, 1, 2),
        lambda x: x.diagonal(1, 1, 2),
        lambda x: x.diagonal(dim1=2, dim2=1, offset=-1),
        lambda x: x.unfold(2, 2, 1),
        lambda x: x.unfold(-1, 1, 2),
        lambda x: x.flip(1),
        lambda x: x.flip(1, 2),
        lambda x: x.flip(-1),
        lambda x: x.roll(1, 2),
        lambda x: x.roll((1, -1), (1, 2)),
        lambda x: x.repeat(1, 2, 1),
        lambda x: x.tile(2),
        lambda x: x[:, 0].repeat(1, 2),
        lambda x: x.repeat_interleave(2, 1),
        lambda x: x.tril(),
        lambda x: x.triu(1),
        lambda x: x.tril(-1),
        lambda x: x.contiguous().detach(),
        lambda x: A._unsafe_view(x, [x.shape[0], 6]),
        lambda x: x.select_scatter(x[:, 0] * 2, 1, 1),
        lambda x: x.slice_scatter(x[:, :, :2] + 1, 2, 1, 3),
        lambda x: x.slice_scatter(x[:, :, :1] + 1, -1, 0, 3, 3),
        lambda x: x.slice_scatter(x + 1, 2),
        lambda x: x.slice_scatter(x[:, :1], dim=1, end=1),
        lambda x: x.slice_scatter(x[:, :1], 1, -1),
        lambda x: x.expand(2, *x.shape).movedim(0, 1),
        lambda x: A.expand(x, [-1, 2, 3], implicit=True),
    ],
    Y,
)
cases(
    "joins",
    [
        lambda x, y: torch.cat((x, y), 1),
        lambda x, y: torch.cat((x, y), -1),
        lambda x, y: torch.cat((x, torch.ones(x.shape[0], 2, 1)), 2),
        lambda x, y: torch.cat((x, torch.empty(0)), 1),
        lambda x, y: torch.cat((x[:, :0], y), 1),
        lambda x, y: torch.stack((x, y), 1),
        lambda x, y: torch.stack((x, y), -1),
        lambda x, y: torch.hstack((x, y)),
        lambda x, y: torch.dstack((x, y)),
        lambda x, y: torch.cat((x > 0, y), 1),
        lambda x, y: torch.stack((x, y)).movedim(0, 2),
        lambda x, y: F.pad(x, (1, 2)),
        lambda x, y: F.pad(x, (0, 1, 1, 0), value=3.5),
        lambda x, y: F.pad(x, (-1, 1)),
        lambda x, y: torch.broadcast_tensors(x, y[:, :1])[1],
    ],
    Y,
    Y,
)
cases(
    "new",
    [
        lambda x: torch.zeros_like(x) + x,
        lambda x: torch.ones_like(x, dtype=INT) * x,
        lambda x: torch.full_like(x, 2.5) * x,
        lambda x: torch.full_like(x, 2.5, dtype=INT) * x,
        lambda x: x.new_zeros(x.shape[0], 2),
        lambda x: x.new_ones(x.shape[0], 2, dtype=INT),
        lambda x: x.new_full((x.shape[0], 2), 7),
        lambda x: x.new_full((x.shape[0],), 7.5, dtype=INT),
        lambda x: x.new_zeros(x.shape, dtype=torch.float64) + x,
        lambda x: torch.zeros_like(x, dtype=torch.bool) | (x > 0),
        lambda x: x + torch.zeros(x.shape[0], 1, 3),
        lambda x: torch.zeros_like(torch.empty_like(x)),
        lambda x: x.new_empty(x.shape[0], 2, dtype=INT) * 0,
        lambda x: torch.empty_like(x, dtype=INT) * 0,
    ],
    Y,
)


def stepwise(x):
    """Writes into a tensor that nobody else sees."""
    y = x * 2
    y += 1
    y.clamp_(-3, 3).mul_(x).sub_(x, alpha=0.5)
    z = torch.zeros_like(y).copy_(x[:, :1])
    return y, z.add_(y), torch.empty_like(z).fill_(2.5).add_(z), y.clone().zero_()


case("written", stepwise, Y)

# --- along dimensions ----------------------------------------------------------------------------

Z = tame(4, 3)
EMPTY = tame(0, 3)
SUMS = {
    "sum": torch.sum,
    "mean": torch.mean,
    "prod": torch.prod,
    "amax": torch.amax,
    "amin": torch.amin,
    "any": torch.any,
    "all": torch.all,
    "nansum": torch.nansum,
    "count_nonzero": torch.count_nonzero,
    "logsumexp": torch.logsumexp,
    "var": torch.var,
    "std": torch.std,
    "norm": torch.norm,
    "vector_norm": torch.linalg.vector_norm,
}
for _name, _f in SUMS.items():
    case(
        f"{_name} dim",
        (lambda x: (torch.norm(x, dim=1), torch.norm(x, dim=-1)))
        if _name == "norm"
        else lambda x, f=_f: (f(x, dim=1), f(x, dim=-1)),
        Z,
    )
    if _name not in ("prod", "norm"):
        case(f"{_name} dims", lambda x, f=_f: f(x, dim=(1, 2)), Z)
    if _name != "count_nonzero":
        case(f"{_name} keepdim", lambda x, f=_f: f(x, dim=1, keepdim=True), Z)
    case(f"{_name} doubles", lambda x, f=_f: f(x, dim=1), double(4))
for _name in ("sum", "prod", "any", "all", "count_nonzero", "nansum"):
    case(f"{_name} empty", lambda x, f=SUMS[_name]: f(x, dim=1), EMPTY)
    case(f"{_name} ints", lambda n, f=SUMS[_name]: f(n, dim=1), ints(4))
    case(f"{_name} bits", lambda m, f=SUMS[_name]: f(m.float() if f is torch.nansum else m, dim=1), bits(4))
case(
    "mean empty", lambda x: (x.mean(1), torch.linalg.vector_norm(x, dim=1), torch.var(x, 1), x.cumsum(1).sum(1)), EMPTY
)
case("extreme ints", lambda n: (n.amax(1), n.amin(1), *n.max(1), *n.min(1), *n.aminmax(dim=1)), ints(4))
case("extreme bits", lambda m: (m.amax(1), m.amin(1), *m.max(1), *m.min(1), m.int().argmax(1)), bits(4))
case("sum of all", lambda x: torch.stack([x[:, i].sum((1,)) for i in range(4)], 1), tame(4, 3))
cases(
    "dtype",
    [
        lambda n: n.sum(1, dtype=torch.float32),
        lambda n: n.mean(1, dtype=torch.float32),
        lambda n: n.prod(1, dtype=torch.float64),
        lambda n: n.cumsum(1, dtype=torch.float32),
        lambda n: n.cumprod(1, dtype=torch.float64),
        lambda n: n.sum(1, dtype=torch.int32).long(),
        lambda n: torch.nansum(n.float(), 1, dtype=torch.float64),
        lambda n: torch.linalg.vector_norm(n.float(), dim=1, dtype=torch.float64),
        lambda n: torch.norm(n.float(), p=1, dim=1, dtype=torch.float64),
        lambda n: n.sum(1, dtype=torch.bool),
        lambda n: A.norm(n.float(), 3, [1], False, dtype=torch.float64),
        lambda n: A.norm(n.float(), 3, [1], True),
    ],
    small(4),
)
ORDERS = (0, 1, 2, 3, 0.5, 1.5, INF, -INF, -1)
cases(
    "orders",
    [
        lambda x, p=p: (
            torch.linalg.vector_norm(x, ord=p, dim=1),
            torch.norm(x, p=p, dim=1),
            x.norm(p, -1),
            x.norm(p, (1, 2)),
        )
        for p in ORDERS
    ],
    Z,
)
case(
    "norm fro",
    lambda x: (
        x.norm(dim=1),
        torch.norm(x, "fro", dim=1),
        torch.linalg.norm(x[:, 0], dim=1),
        F.normalize(x, dim=2),
        F.normalize(x, p=1.0, dim=1),
    ),
    Z,
)
case("cosine", lambda x, y: (F.cosine_similarity(x, y, dim=-1), F.pairwise_distance(x, y)), X, X)
cases(
    "spread",
    [
        lambda x: x.var(1),
        lambda x: x.std(1, unbiased=False),
        lambda x: x.var(1, correction=2),
        lambda x: x.std(dim=(1, 2), correction=0, keepdim=True),
        lambda x: torch.var_mean(x.nan_to_num(0, 1, 2), 1),
        lambda x: torch.std_mean(x.nan_to_num(0, 1, 2), 1, correction=0, keepdim=True),
        lambda x: torch.var_mean(x.nan_to_num(0, 1, 2), 1, correction=0, keepdim=True),
        lambda x: x[:, :1].var(1),
        lambda x: x.var(1, correction=4),
    ],
    Z,
)
cases(
    "running",
    [
        lambda x: x.cumsum(1),
        lambda x: x.cumsum(-1),
        lambda x: x.cumprod(2),
        lambda x: x.cummax(1),
        lambda x: x.cummin(-1),
        lambda x: x.diff(dim=1),
        lambda x: x.diff(2, 2),
    ],
    Z,
)
case("running ints", lambda n: (n.cumsum(1), n.cumprod(1), *n.cummax(1), *n.cummin(1)), ints(4))
case("running bits", lambda m: (m.cumsum(1), m.cumprod(1), *m.cummax(1), *m.cummin(1)), bits(4))
cases(
    "where the best is",
    [
        lambda x: x.argmax(1),
        lambda x: x.argmin(1),
        lambda x: x.argmax(-1, keepdim=True),
        lambda x: x.argmin(-1, keepdim=True),
        lambda x: x.max(1),
        lambda x: x.min(2),
        lambda x: x.max(2, keepdim=True),
        lambda x: x.min(1, keepdim=True),
        lambda x: x.aminmax(dim=2),
        lambda x: x.aminmax(dim=1, keepdim=True),
        lambda x: x.flatten(1).argmax(1),
    ],
    Z,
)
case("where the best int is", lambda n: (n.argmax(1), n.argmin(1)), small(4))
cases(
    "sort",
    [
        lambda x: x.sort(1),
        lambda x: x.sort(),
        lambda x: x.sort(1, descending=True),
        lambda x: torch.sort(x, stable=True),
        lambda x: torch.sort(x, dim=1, stable=True, descending=True),
        lambda x: x.argsort(1),
        lambda x: x.argsort(-1, descending=True),
        lambda x: torch.argsort(x, dim=1, stable=True),
    ],
    Z,
)
cases("sort ints", [lambda n: n.sort(1), lambda n: n.sort(1, descending=True)], small(5))
case("sort bits", lambda m: (*m.sort(1), m.sort(1, descending=True)[0]), bits(5))
cases(
    "some of the largest",
    [
        lambda x: x.topk(2, 1)[0],
        lambda x: x.topk(2, -1, largest=False)[0],
        lambda x: x.topk(3, 1, True, False)[0].sort(1)[0],
        lambda x: x.kthvalue(2, 1)[0],
        lambda x: x.kthvalue(3, 1, keepdim=True)[0],
        lambda x: x.median(1)[0],
        lambda x: x.median(2, keepdim=True)[0],
    ],
    Z,
)
case(
    "where the largest are",
    lambda x: (x.topk(2, 1)[1], x.kthvalue(2, 1)[1], x.median(1)[1]),
    ("apart", (5,), torch.float32),
)
cases(
    "soft",
    [
        lambda x: x.softmax(1),
        lambda x: x.softmax(-1),
        lambda x: x.log_softmax(1),
        lambda x: x.logsumexp(2),
        lambda x: x.softmax(1, dtype=torch.float64),
        lambda x: x.logsumexp((1, 2), keepdim=True),
        lambda x: F.softmin(x, 1),
    ],
    Z,
)

# --- matrices ------------------------------------------------------------------------------------

MAT, BIAS = (
    torch.tensor([[0.5, -1.0, 2.0], [1.5, 0.25, 0.0], [3.0, 4.0, -0.5], [1.0, 1.0, 1.0]]),
    torch.tensor([0.5, -1.5, 0.0, 2.0]),
)
cases(
    "matrices",
    [
        lambda x, y: F.linear(x, MAT),
        lambda x, y: F.linear(x, MAT, BIAS),
        lambda x, y: F.linear(x[:, 0], MAT, BIAS),
        lambda x, y: x @ MAT.t(),
        lambda x, y: x[:, 0] @ MAT[0],
        lambda x, y: x @ y.mT,
        lambda x, y: torch.bmm(x, y.transpose(1, 2)),
        lambda x, y: MAT @ x.mT,
        lambda x, y: torch.einsum("bad,bad->ba", x, y),
        lambda x, y: torch.einsum("bad,bcd->bac", x, y),
        lambda x, y: torch.einsum("bad,ed->bae", x, MAT),
        lambda x, y: torch.einsum("bad->bda", x),
        lambda x, y: torch.einsum("ab,cb->ac", x[:, 0], MAT),
        lambda x, y: torch.baddbmm(x[:, :, :2], x, y.mT, beta=0.5, alpha=2),
        lambda x, y: torch.baddbmm(x[:, :, :2], x, y.mT, beta=0),
        lambda x, y: torch.addmm(BIAS, x[:, 0], MAT.t(), beta=2, alpha=0.5),
        lambda x, y: torch.addmv(x[:, 0, 0], x[:, 0], MAT[0], alpha=3, beta=0.5),
        lambda x, y: torch.mv(x[:, 0], MAT[0]),
        torch.linalg.cross,
        lambda x, y: torch.cross(x, y, dim=2),
        lambda x, y: torch.linalg.cross(x.mT, y.mT, dim=1),
        torch.linalg.vecdot,
        lambda x, y: torch.tensordot(x, MAT, dims=([2], [1])),
        lambda x, y: torch.inner(x, MAT),
        lambda x, y: torch.mm(x[:, 1], MAT.t()),
        lambda x, y: torch.addmm(x[:, 0, :1], x[:, 0], MAT.t()),
        lambda x, y: torch.einsum("bi,bj->bij", x[:, 0], y[:, 0]),
        lambda x, y: (x.unsqueeze(-2) @ y.unsqueeze(-1)).squeeze(),
        lambda x, y: torch.bmm(x, y.mT.contiguous()) @ x,
    ],
    X2,
    X2,
)
cases(
    "distances",
    [
        torch.cdist,
        lambda x, y: torch.cdist(x, y, p=1),
        lambda x, y: torch.cdist(x, y, p=INF),
        lambda x, y: torch.cdist(x, MAT),
        lambda x, y: torch.cdist(x, y, p=3),
        lambda x, y: torch.cdist(x, y, compute_mode="donot_use_mm_for_euclid_dist"),
        lambda x, y: A._euclidean_dist(x.nan_to_num(0, 0, 0), y.nan_to_num(1, 1, 1)),
    ],
    X2,
    X2,
)

# --- by indices ----------------------------------------------------------------------------------

I2 = small(2)


def near(i, n=4):
    return i.clamp(0, n - 1)


cases(
    "gather",
    [
        lambda x, i: x[:, :, 0].gather(1, near(i)),
        lambda x, i: x.gather(1, near(i).unsqueeze(-1).expand(-1, -1, 3)),
        lambda x, i: torch.take_along_dim(x, near(i, 3).unsqueeze(1), 2),
        lambda x, i: x.gather(2, near(i, 3).unsqueeze(-1)),
        lambda x, i: torch.from_numpy(TABLE.numpy())[near(i)],
        lambda x, i: x[torch.arange(x.shape[0]), near(i)[:, 0]],
        lambda x, i: x[torch.arange(x.shape[0])[:, None], near(i)],
        lambda x, i: x[torch.arange(x.shape[0]), :, near(i, 3)[:, 0]],
        lambda x, i: x[torch.arange(x.shape[0]), near(i)[:, 0], near(i, 3)[:, 1]],
        lambda x, i: x[torch.arange(x.shape[0])[:, None], i.clamp(-4, 3)],
        lambda x, i: TABLE[near(i), i.clamp(-3, 2)],
        lambda x, i: F.embedding(near(i), TABLE),
        lambda x, i: (i >= 0).long().gather(1, (i > 0).long()),
        lambda x, i: x[:, :, 0].gather(1, x[:, :, 0].argsort(1)),
        lambda x, i: x.gather(1, x.argmax(1, keepdim=True)),
        lambda x, i: x[:, :, 0].gather(1, (i % 4)),
        lambda x, i: BIAS[near(i)].sum(1),
        lambda x, i: A._unsafe_index(x, [None, torch.tensor([1, 1])]),
    ],
    Z,
    I2,
)
LONG = torch.linspace(-3, 5, 200)
cases(
    "tables",
    [
        lambda i: LONG[i.clamp(0, 199)],
        lambda i: LONG[i.clamp(-200, 199)],
        lambda i: LONG.double()[i.clamp(0, 199)],
        lambda i: torch.arange(400)[i.clamp(0, 399)],
        lambda i: LONG.reshape(20, 10)[i.clamp(0, 19), (i % 10)],
        lambda i: LONG.where(LONG < 4, INF)[i.clamp(0, 199)],
        lambda i: (LONG > 0)[i.clamp(0, 199)],
        lambda i: LONG[torch.tensor(7).expand_as(i)],
    ],
    I2,
)
cases(
    "picks",
    [
        lambda x: x[:, PICKS],
        lambda x: x[:, [0, -1]],
        lambda x: x[..., [2, 0]],
        lambda x: x[:, PICKS, [0, 1, 2]],
        lambda x: x[:, [[0], [1]], [0, 2]],
        lambda x: x.index_select(1, PICKS),
        lambda x: x.index_select(-1, PICKS),
        lambda x: x[:, torch.tensor([True, False, True, True])],
        lambda x: x[:, torch.eye(4, 3) > 0],
        lambda x: x[:, ~torch.eye(4, 3, dtype=torch.bool)],
        lambda x: x[:, PICKS][:, None],
        lambda x: x[:, None, PICKS],
        lambda x: x.movedim(0, 1)[PICKS].movedim(1, 0),
        lambda x: x.permute(1, 0, 2)[torch.tensor([1, 0]), :, torch.tensor([2, 1])].t(),
    ],
    Z,
)
cases(
    "writes",
    [
        lambda x, y: x.index_add(1, PICKS, y[:, :3]),
        lambda x, y: x.index_add(1, PICKS, y[:, :3], alpha=2.5),
        lambda x, y: x.index_add(2, PICKS, y, alpha=-1),
        lambda x, y: x.index_copy(1, PICKS[:2], y[:, :2]),
        lambda x, y: x.index_copy(-1, PICKS[:2], y[:, :, :2]),
        lambda x, y: x.index_fill(1, PICKS[:2], 3.5),
        lambda x, y: x.index_fill(2, PICKS[:2], torch.tensor(NAN)),
    ],
    Z,
    Z,
)
cases(
    "scatter",
    [
        lambda x, y, i: x.scatter(1, near(i, 3), y),
        lambda x, y, i: x.scatter(1, near(i, 3), 2.5),
        lambda x, y, i: x.scatter(1, near(i, 3), y, reduce="add"),
        lambda x, y, i: x.scatter(1, near(i, 3), y, reduce="multiply"),
        lambda x, y, i: x.scatter(1, near(i, 3), 2.5, reduce="add"),
        lambda x, y, i: x.scatter(1, near(i, 3), 2.5, reduce="multiply"),
        lambda x, y, i: x.scatter_add(1, near(i, 3), y),
        *[
            lambda x, y, i, r=r, s=s: x.scatter_reduce(1, near(i, 3), y, r, include_self=s)
            for r in ("sum", "prod", "mean", "amax", "amin")
            for s in (True, False)
        ],
        lambda x, y, i: x.unsqueeze(2).expand(-1, -1, 2).scatter(2, near(i[:, :1].unsqueeze(1), 2), y.unsqueeze(2)),
    ],
    X,
    X,
    small(2),
)
cases(
    "sets",
    [
        lambda n: torch.isin(n, PICKS),
        lambda n: torch.isin(n, torch.tensor([1.0, 2.5])),
        lambda n: torch.isin(n, 3),
        lambda n: torch.isin(n, PICKS, invert=True),
        lambda n: torch.isin(n, PICKS, assume_unique=True),
    ],
    S,
)
EDGES = torch.tensor([-2.5, 0.0, 1.0, 3.0])
cases(
    "buckets",
    [
        lambda x: torch.bucketize(x, EDGES),
        lambda x: torch.bucketize(x, EDGES, right=True),
        lambda x: torch.bucketize(x, EDGES, out_int32=True).long(),
    ],
    W,
)
