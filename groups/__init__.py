"""Who belongs together: group maps, trees of groups, and what they do to specs, data, done flags and resets.

Pure functions on specs and tensordicts; no env is needed to use or to test them.
"""

if __name__ != "marlenv.groups":
    raise ImportError(
        f"this package is imported as marlenv.groups, not as {__name__!r}; install the project (pip install -e .)"
    )

from marlenv.groups.done import DoneLevel, DonePlan, Flags, aggregate, aggregate_tree
from marlenv.groups.graph import edge_index, graph_from_group_map, group_map_from_graph
from marlenv.groups.maps import MarlGroupMapType, check_marl_grouping, resolve
from marlenv.groups.masks import alive_after, check_actions, masked_mean, open_rows
from marlenv.groups.packing import Packer, stack_agents
from marlenv.groups.regroup import regroup, regroup_spec
from marlenv.groups.regroup_plan import RegroupPlan
from marlenv.groups.reset import merge, read_masks
from marlenv.groups.specs import group_specs, pad
from marlenv.groups.tree import GroupTree
from marlenv.groups.turns import TurnView, compact_turns

__all__ = [
    "DoneLevel",
    "DonePlan",
    "Flags",
    "GroupTree",
    "MarlGroupMapType",
    "Packer",
    "RegroupPlan",
    "TurnView",
    "aggregate",
    "aggregate_tree",
    "alive_after",
    "check_actions",
    "check_marl_grouping",
    "compact_turns",
    "edge_index",
    "graph_from_group_map",
    "group_map_from_graph",
    "group_specs",
    "masked_mean",
    "merge",
    "open_rows",
    "pad",
    "read_masks",
    "regroup",
    "regroup_spec",
    "resolve",
    "stack_agents",
]
