"""From expressions to C++: everything comes before its use, with branches around what most rows skip.

A force that is multiplied by "they touch" is zero elsewhere, and so is all that follows from it by products. What is
needed for such zeros alone goes into a branch that is skipped when none of the sixteen rows touches; and so does what
is only chosen where a condition holds, as the speed of what is too fast. Rows stay independent: what is skipped is
exactly zero, or not chosen.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field

from marlenv.physics.jit import cpp
from marlenv.physics.jit.bounds import excludes_zero
from marlenv.physics.jit.cpp import CTYPE
from marlenv.physics.jit.graph import Graph, Node

SLOTS = {"f": 1, "d": 2, "l": 2, "b": 1}
"""How many slots sixteen values take, of 64 bytes each, or one value, of 4; where it is two, the first has an even
number."""
INFIX = {"add": "+", "sub": "-", "mul": "*", "div": "/", "shr": ">>", "shl": "<<"}
BITS = {"and": "&", "or": "|", "xor": "^"}
LEAVES = ("const", "input", "phi")
CHUNK = 1500  # expressions per C++ function: compilers take more than twice as long for twice as many
WORTH = 8  # expressions; a branch around fewer costs more than it saves
CARE = 0  # the slot with the rows that matter to a loop that may stop


@dataclass
class Branch:
    """What is computed only if ``mask`` holds in some row."""

    mask: Node
    nodes: list[Node]
    inner: list[Branch] = field(default_factory=list)
    """Branches within it, of some of its nodes."""


@dataclass
class Round:
    """A loop with its body."""

    number: int
    needed: list[int]
    body: list[Item] = field(default_factory=list)


Item = Node | Branch | Round


def aligned(slot: int, kind: str) -> int:
    """The first slot from ``slot`` on where values of a kind may begin."""
    return slot + slot % SLOTS[kind]


class Emitter:
    """The C++ functions that compute some expressions.

    Args:
        name: of the function; its parts get numbers.
        graph: where the expressions are.
        places: expression of an input -> C++ code of its slot.
        roots: the expressions that are wanted, with the slot in which each goes; several slots for one are fine.
        scratch: the first slot that is free for what does not fit into one function.

    """

    def __init__(
        self,
        name: str,
        graph: Graph,
        places: dict[int, str],
        roots: Sequence[tuple[Node, int]],
        scratch: int,
    ) -> None:
        self.name, self.graph, self.places, self.scratch = name, graph, places, scratch
        self.wanted: dict[int, list[int]] = {}
        for node, slot in roots:
            self.wanted.setdefault(node.at, []).append(slot)
        self.live = self._reach(node for node, _ in roots)
        self.depends = self._dependencies()
        self.arrays = {at: self._given(node) for at, node in self.live.items() if node.op == "array"}
        self.branches, self.branch_of = self._find_branches({node.at for node, _ in roots} | self.arrays.keys())
        self.done: set[int] = set()
        items: list[Item] = []
        for node, _ in roots:
            self._visit(node, items, frozenset())
        self.items = items
        self.home: dict[int, int] = {}
        self.slots: dict[int, int] = {}
        self.names = [name]
        """Of the functions."""
        self.functions = [cpp.table(f"{name}_t{number}", kind, table) for (kind, table), number in graph.tables.items()]
        self.lengths = {number: len(table) for (_, table), number in graph.tables.items()}

    @property
    def size(self) -> int:
        """How many expressions there are."""
        return len(self.live)

    # --- what depends on what --------------------------------------------------------------------

    def _reach(self, roots: Iterable[Node]) -> dict[int, Node]:
        """All that is needed, in the order of the graph."""
        live: dict[int, Node] = {}
        stack = list(roots)
        while stack:
            node = stack.pop()
            if node.at in live:
                continue
            live[node.at] = node
            stack += node.args
            if node.op in ("out", "phi") and node.value[1] >= 0:
                loop, k = self.graph.loops[node.value[0]], node.value[1]
                stack += [loop.inits[k], loop.nexts[k], loop.phis[k]]
                if loop.stop is not None:
                    stack.append(loop.stop)
        return dict(sorted(live.items()))

    def _dependencies(self) -> dict[int, frozenset[int]]:
        """In the body of which loops each expression is."""
        depends: dict[int, frozenset[int]] = {}
        for at, node in self.live.items():
            inside = frozenset({node.value[0]}) if node.op == "phi" else frozenset[int]()
            for arg in node.args:
                inside |= depends[arg.at]
            if node.op == "out":
                loop = self.graph.loops[node.value[0]]
                inside = inside.union(*(depends[n.at] for n in loop.nexts if n.at in depends)) - {node.value[0]}
            depends[at] = inside
        return depends

    def _given(self, array: Node) -> str:
        """Where an array is in memory: where its entries come from if they are neighbours there, or scratch slots."""
        step, first = SLOTS[array.kind], self.places.get(array.args[0].at, "")
        base, _, slot = first.partition(" + ")
        if first and all(self.places.get(n.at) == f"{base} + {int(slot) + step * k}" for k, n in enumerate(array.args)):
            return first
        first_slot = aligned(self.scratch, array.kind)
        self.scratch = first_slot + step * len(array.args)
        return f"s + {first_slot}"

    def _laid(self, array: Node, function: int) -> list[str]:
        """Writes the entries of an array to where it is, unless they are there."""
        if self.arrays[array.at] == self.places.get(array.args[0].at):
            return []
        base, _, slot = self.arrays[array.at].partition(" + ")
        kind, step = CTYPE[array.kind], SLOTS[array.kind]
        entries = enumerate(array.args)
        return [f"  *({kind} *)({base} + {int(slot) + step * k}) = {self._ref(n, function)};" for k, n in entries]

    # --- branches --------------------------------------------------------------------------------

    def _find_branches(self, roots: set[int]) -> tuple[list[Branch], dict[int, int]]:
        zeros = self._zeros()
        users: dict[int, list[Node]] = {}
        for node in self.live.values():
            for arg in node.args:
                users.setdefault(arg.at, []).append(node)
        for loop in self.graph.loops:  # what a loop keeps is used by the loop
            for node in (*loop.nexts, *loop.inits, *([loop.stop] if loop.stop else [])):
                roots = roots | {node.at}
        branches, branch_of = self._cut(self._under(self.live, zeros, users, roots))
        for branch in branches:
            inside = {node.at: node for node in branch.nodes}
            within = {at: zeros[at] & inside.keys() for at in inside if at in zeros}  # empty ones are no harm
            inner, _ = self._cut(self._under(inside, within, users, roots))
            branch.inner = [b for b in inner if b.mask.at < b.nodes[-1].at]
        return branches, branch_of

    def _under(
        self,
        nodes: dict[int, Node],
        zeros: Mapping[int, Set[int]],
        users: dict[int, list[Node]],
        roots: set[int],
    ) -> dict[int, int]:
        """Expression -> the mask, one of ``nodes``, outside of which nobody needs it; of several the first."""
        where: dict[int, int] = {}
        for at in reversed(nodes):
            node = nodes[at]
            if node.op in LEAVES or node.op == "out":
                continue
            own = min(zeros.get(at, ()), default=-1)
            into = {where.get(user.at, _arm(user, at)) for user in users.get(at, [])}
            mask = into.pop() if len(into) == 1 else -1
            free = mask in nodes and at not in roots and self.depends[at] == self.depends[mask] and at != mask
            if free and not 0 <= own < mask:
                where[at] = mask  # the condition that comes first holds the others
            elif own >= 0:
                where[at] = own
        return where

    def _zeros(self) -> dict[int, frozenset[int]]:
        """Expression -> the masks outside of which it is zero."""
        zero: dict[int, frozenset[int]] = {}
        none: frozenset[int] = frozenset()
        chosen: dict[int, frozenset[int]] = {}
        for at, node in self.live.items():
            sets = [zero.get(arg.at, none) for arg in node.args]
            blank = [arg.op == "const" and arg.value == 0 for arg in node.args]
            found = none
            if node.op == "cast" and node.args[0].kind == "b" and node.args[0].op not in LEAVES:
                found = _conditions(node.args[0])
            elif node.op in ("mul", "fma"):  # zero times what may be infinite need not be zero
                found = (sets[0] if node.args[1].sound else none) | (sets[1] if node.args[0].sound else none)
                if node.op == "fma":
                    found &= sets[2]
            elif node.op in ("neg", "abs", "sqrt") or (
                node.op == "div" and node.args[1].sound and excludes_zero(node.args[1])
            ):
                found = sets[0]
            elif node.op in ("add", "sub", "min", "max"):
                found = sets[1] if node.op == "sub" and blank[0] else sets[0] & sets[1]
            elif node.op == "select":
                a, b = sets[1:]
                found = a & b if not any(blank) else b if blank[1] else a
                if blank[2] and node.args[0].op not in LEAVES:
                    found = found | {node.args[0].at}
            if found:
                zero[at] = found
                if node.op != "cast" and node.kind == "f":
                    same = frozenset(mask for mask in found if self.depends[mask] == self.depends[at])
                    if same:
                        chosen[at] = same
        return chosen

    def _cut(self, where: dict[int, int]) -> tuple[list[Branch], dict[int, int]]:
        """Branches that never wait for themselves; small ones are left out."""
        members: dict[int, list[int]] = {}
        for at in sorted(where):
            members.setdefault(where[at], []).append(at)
        branches: list[Branch] = []
        branch_of: dict[int, int] = {}
        for mask, whole in members.items():
            rest = whole
            while rest:
                part, rest = self._closed(rest)
                nodes = [self.live[at] for at in part]
                if sum(3 if n.op in ("div", "sqrt", "softplus") else 1 for n in nodes) < WORTH:
                    continue
                for at in part:
                    branch_of[at] = len(branches)
                branches.append(Branch(self.live[mask], nodes))
        return branches, branch_of

    def _closed(self, part: list[int]) -> tuple[list[int], list[int]]:
        """The first of ``part``, up to one that needs something from outside that needs one of them; and the rest."""
        inside, tainted = set(part), set[int]()
        for at in range(part[0], part[-1] + 1):
            node = self.live.get(at)
            if node is None:
                continue
            if at in inside:
                if any(arg.at in tainted for arg in node.args):
                    cut = part.index(at)
                    return part[:cut], part[cut:]
            elif any(arg.at in inside or arg.at in tainted for arg in node.args):
                tainted.add(at)
        return part, []

    # --- the order -------------------------------------------------------------------------------

    def _visit(self, root: Node, items: list[Item], ctx: frozenset[int]) -> None:
        """Adds what ``root`` needs to ``items``, in order."""
        stack = [root]
        entered: set[int] = set()  # branches that wait for what they need, by their first expressions
        while stack:
            node = stack[-1]
            if node.at in self.done or node.op in LEAVES:
                stack.pop()
                continue
            unit, needs = self._unit(node)
            waiting = [n for n in needs if n.at not in self.done and n.op not in LEAVES]
            if waiting and isinstance(unit, Branch) and unit.nodes[0].at in entered:
                for n in unit.nodes:  # two branches, or one and a loop, that wait for each other: it is none
                    del self.branch_of[n.at]
                continue
            if waiting:
                if isinstance(unit, Branch):
                    entered.add(unit.nodes[0].at)
                stack += waiting
                continue
            stack.pop()
            items.append(unit)
            if isinstance(unit, Branch):
                self.done.update(n.at for n in unit.nodes)
            elif isinstance(unit, Round):
                self._fill(unit, ctx)
            else:
                self.done.add(node.at)

    def _unit(self, node: Node) -> tuple[Item, list[Node]]:
        """What is computed together with an expression, and what must be there before."""
        if node.op == "out":
            unit = self._round(node.value[0])
            return unit, self._outside(unit)
        if node.at in self.branch_of:
            branch = self.branches[self.branch_of[node.at]]
            inside = {n.at for n in branch.nodes}
            needs = [arg for n in branch.nodes for arg in n.args if arg.at not in inside]
            return branch, [branch.mask, *needs]
        return node, list(node.args)

    def _round(self, number: int) -> Round:
        loop = self.graph.loops[number]
        return Round(number, [k for k, phi in enumerate(loop.phis) if phi.at in self.live])

    def _ends(self, unit: Round) -> list[Node]:
        loop = self.graph.loops[unit.number]
        return [loop.nexts[k] for k in unit.needed] + ([loop.stop] if loop.stop is not None else [])

    def _outside(self, unit: Round) -> list[Node]:
        """What the body needs that does not change in it."""
        loop = self.graph.loops[unit.number]
        found, seen, stack = [loop.inits[k] for k in unit.needed], set[int](), self._ends(unit)
        while stack:
            node = stack.pop()
            if node.at in seen:
                continue
            seen.add(node.at)
            if unit.number in self.depends[node.at]:
                stack += node.args
            else:
                found.append(node)
        return found

    def _fill(self, unit: Round, ctx: frozenset[int]) -> None:
        inner = ctx | {unit.number}
        for node in self._ends(unit):
            self._visit(node, unit.body, inner)
        outs = [n for n in self.live.values() if n.op == "out" and n.value[0] == unit.number]
        self.done.update(n.at for n in outs)

    # --- the text --------------------------------------------------------------------------------

    def code(self) -> str:
        """The functions; the last one, ``name(st, s)``, calls the others."""
        tree = self._split(self.items)
        self._settle(tree, self._next_function())
        self._find_crossings(tree, 0)
        body = self._text(tree, 0)
        for at, slots in self.wanted.items():
            node = self.live[at]
            if node.op in LEAVES:
                body += [f"  *({CTYPE[node.kind]} *)(s + {slot}) = {self._ref(node, 0)};" for slot in slots]
        self.functions.append(cpp.function(self.name, body, "WHOLE"))
        return "\n".join(self.functions)

    def _next_function(self) -> int:
        self._count = getattr(self, "_count", -1) + 1
        return self._count

    def _split(self, items: list[Item]) -> list[Item | list[Item]]:
        """Items in groups that become functions of their own, where there are too many."""
        for item in items:
            if isinstance(item, Round):
                item.body = self._split(item.body)  # type: ignore[assignment]
        weights = [_weight(item) for item in items]
        if sum(weights) <= CHUNK:
            return list(items)
        out: list[Item | list[Item]] = []
        group: list[Item] = []
        size = 0
        for item, weight in zip(items, weights, strict=True):
            if group and (isinstance(item, Round) or size + weight > CHUNK):
                out.append(group)
                group, size = [], 0
            if isinstance(item, Round):
                out.append(item)
            else:
                group.append(item)
                size += weight
        return [*out, group] if group else out

    def _settle(self, tree: Sequence[Item | list[Item]], function: int) -> None:
        """Decides in which function everything is computed."""
        for item in tree:
            if isinstance(item, list):
                self._settle(item, self._next_function())
            elif isinstance(item, Branch):
                self.home.update((n.at, function) for n in item.nodes)
            elif isinstance(item, Round):
                loop = self.graph.loops[item.number]
                self.home.update((loop.phis[k].at, function) for k in item.needed)
                self.home[loop.index.at] = function
                for n in self.live.values():
                    if n.op == "out" and n.value[0] == item.number:
                        self.home[n.at] = function
                self._settle(item.body, function)
            else:
                self.home[item.at] = function

    def _find_crossings(self, tree: Sequence[Item | list[Item]], function: int) -> None:
        """Gives slots to what is used in another function than where it is computed."""
        for item in tree:
            if isinstance(item, list):
                self._find_crossings(item, self._function_of(item))
                continue
            used: list[Node] = []
            if isinstance(item, Branch):
                used = [item.mask, *(arg for n in item.nodes for arg in n.args)]
            elif isinstance(item, Round):
                loop = self.graph.loops[item.number]
                used = [*(loop.inits[k] for k in item.needed), *self._ends(item)]
                self._find_crossings(item.body, function)
            else:
                used = list(item.args)
            for node in used:
                if node.op in ("const", "input", "array") or self.home[node.at] == function or node.at in self.slots:
                    continue
                self.slots[node.at] = aligned(self.scratch, node.kind)
                self.scratch = self.slots[node.at] + SLOTS[node.kind]

    def _function_of(self, group: list[Item]) -> int:
        first = group[0]
        return self.home[first.nodes[0].at if isinstance(first, Branch) else first.at]  # type: ignore[union-attr]

    def _text(self, tree: Sequence[Item | list[Item]], function: int) -> list[str]:
        lines: list[str] = []
        for item in tree:
            if isinstance(item, list):
                part = self._function_of(item)
                self.names.append(f"{self.name}_{part}")
                self.functions.append(cpp.function(f"{self.name}_{part}", self._text(item, part)))
                lines.append(f"  {self.name}_{part}(st, s);")
            elif isinstance(item, Branch):
                lines += self._branch(item, function)
            elif isinstance(item, Round):
                lines += self._loop(item, function)
            elif item.op == "array":
                lines += self._laid(item, function)
            else:
                lines.append(f"  const {CTYPE[item.kind]} v{item.at} = {self._expression(item, function)};")
                lines += self._kept(item, f"v{item.at}")
        return lines

    def _branch(self, item: Branch, function: int) -> list[str]:
        lines, outer = self._block(item, function, set())
        for n in item.nodes:
            if n.at in outer:
                lines += self._kept(n, f"v{n.at}")
        return lines

    def _block(self, item: Branch, function: int, declared: set[int]) -> tuple[list[str], set[int]]:
        """The text of a branch, and what is used outside of it; some of that may be declared already."""
        outer = self._leaving(item, {n.at for n in item.nodes})
        lines = [f"  {CTYPE[n.kind]} v{n.at} = {cpp.blank(n.kind)};" for n in item.nodes if n.at in outer - declared]
        lines.append(f"  if (any({self._ref(item.mask, function)})) {{")
        for unit in self._arranged(item):
            if isinstance(unit, Branch):
                lines += self._block(unit, function, outer | declared)[0]
            else:
                kind = "" if unit.at in outer | declared else f"const {CTYPE[unit.kind]} "
                lines.append(f"    {kind}v{unit.at} = {self._expression(unit, function)};")
        return [*lines, "  }"], outer

    def _arranged(self, item: Branch) -> list[Node | Branch]:
        """The expressions of a branch and the branches within it, each behind what it needs."""
        own, done, out = {n.at for n in item.nodes}, set[int](), list[Node | Branch]()
        within = {n.at: branch for branch in item.inner for n in branch.nodes}
        entered: set[int] = set()
        for root in item.nodes:
            if root.at in within and root is not within[root.at].nodes[-1]:
                continue  # all that it needs is there by then
            stack = [root]
            while stack:
                node = stack[-1]
                branch = within.get(node.at)
                nodes = [node] if branch is None else branch.nodes
                needs = [arg for n in nodes for arg in n.args] + ([] if branch is None else [branch.mask])
                waiting = [n for n in needs if n.at in own and n.at not in done]
                if branch is not None:
                    waiting = [n for n in waiting if within.get(n.at) is not branch]
                if node.at in done:
                    stack.pop()
                elif not waiting:
                    out.append(branch or node)
                    done.update(n.at for n in nodes)
                elif branch is not None and nodes[0].at in entered:
                    for n in nodes:  # two that wait for each other: this one is none
                        del within[n.at]
                else:
                    entered.add(nodes[0].at)
                    stack += waiting
        return out

    def _leaving(self, item: Branch, inside: set[int]) -> set[int]:
        if not hasattr(self, "_users"):
            self._users: dict[int, list[int]] = {}
            for node in self.live.values():
                for arg in node.args:
                    self._users.setdefault(arg.at, []).append(node.at)
            for loop in self.graph.loops:
                for end in (*loop.nexts, *loop.inits, *([loop.stop] if loop.stop else [])):
                    self._users.setdefault(end.at, []).append(-1)
        return {
            n.at
            for n in item.nodes
            if n.at in self.wanted or any(user not in inside for user in self._users.get(n.at, []))
        }

    def _loop(self, item: Round, function: int) -> list[str]:
        loop, name = self.graph.loops[item.number], f"p{item.number}"
        phis = [(k, loop.phis[k]) for k in item.needed]
        lines = [f"  {CTYPE[phi.kind]} v{phi.at} = {self._ref(loop.inits[k], function)};" for k, phi in phis]
        lines.append(f"  for (int {name} = 0; {name} < {loop.count}; {name}++) {{")
        lines.append(f"  const L v{loop.index.at} = cl({name});")
        for phi in (loop.index, *(phi for _, phi in phis)):
            lines += self._kept(phi, f"v{phi.at}")
        lines += self._text(item.body, function)
        lines += [f"  const {CTYPE[phi.kind]} n{phi.at} = {self._ref(loop.nexts[k], function)};" for k, phi in phis]
        lines += [f"  v{phi.at} = n{phi.at};" for _, phi in phis]
        if loop.stop is not None:
            lines.append(f"  if (!any(mand(*(M *)(s + {CARE}), mnot({self._ref(loop.stop, function)})))) break;")
        lines.append("  }")
        for node in self.live.values():
            if node.op == "out" and node.value[0] == item.number:
                phi = loop.phis[node.value[1]]
                lines.append(f"  const {CTYPE[node.kind]} v{node.at} = v{phi.at};")
                lines += self._kept(node, f"v{node.at}")
        return lines

    def _kept(self, node: Node, name: str) -> list[str]:
        """Stores what others need."""
        slots = [*self.wanted.get(node.at, []), *([self.slots[node.at]] if node.at in self.slots else [])]
        return [f"  *({CTYPE[node.kind]} *)(s + {slot}) = {name};" for slot in slots]

    def _ref(self, node: Node, function: int) -> str:
        if node.op == "const":
            return cpp.literal(node)
        if node.op == "input":
            return f"(*({CTYPE[node.kind]} *)({self.places[node.at]}))"
        if self.home[node.at] == function:
            return f"v{node.at}"
        return f"(*({CTYPE[node.kind]} *)(s + {self.slots[node.at]}))"

    def _expression(self, node: Node, function: int) -> str:
        op, kind = node.op, node.kind
        if op == "take":
            array, at = node.args
            return f"take{kind}({self.arrays[array.at]}, {len(array.args)}, {self._ref(at, function)})"
        args = [self._ref(arg, function) for arg in node.args]
        if op == "look":
            return f"look{kind}({self.name}_t{node.value}, {self.lengths[node.value]}, {args[0]})"
        if op in INFIX:
            return f"{args[0]} {INFIX[op]} {args[1]}"
        if op in BITS:
            return f"m{op}({args[0]}, {args[1]})" if kind == "b" else f"{args[0]} {BITS[op]} {args[1]}"
        if op in ("min", "max"):
            return f"{_extreme(node)}({', '.join(args if not node.args[1].sound else args[::-1])})"
        if op == "neg":
            return f"-{args[0]}"
        if op == "cast":
            return f"to{kind}({args[0]})"
        name = {"select": "sel", "not": "mnot"}.get(op) or (op if op in PLAIN else f"v{op}")
        return f"{name}({', '.join(args)})"


def _extreme(node: Node) -> str:
    """The function for a minimum or maximum whose second argument may be NaN; another one if the first may be."""
    certain = node.kind == "l" or node.args[0].sound or node.args[1].sound
    return f"v{node.op}" if certain else f"n{node.op}"


def _conditions(mask: Node) -> frozenset[int]:
    """The mask and, where it joins others, the last of them: a branch by that alone leaves the others to the branch."""
    last = mask.args[1] if mask.op == "and" else mask
    return frozenset({mask.at} if last.op in LEAVES else {mask.at, last.at})


def _arm(user: Node, at: int) -> int:
    """The mask outside of which ``user`` does not look at the expression ``at``; -1 where there is none."""
    if user.op not in ("select", "and"):
        return -1
    mask, chosen, *other = user.args  # a mask and another one are chosen between that and False
    return mask.at if chosen.at == at != (*other, mask)[0].at and mask.op not in LEAVES else -1


PLAIN = ("lt", "le", "gt", "ge", "eq", "ne", "fma", "softplus", "floordiv", "truncdiv", "mod", "rem")


def _weight(item: Item | list[Item]) -> int:
    if isinstance(item, list):
        return sum(map(_weight, item))
    if isinstance(item, Branch):
        return len(item.nodes)
    if isinstance(item, Round):
        return sum(map(_weight, item.body))
    return len(item.args) if item.op == "array" else 1
