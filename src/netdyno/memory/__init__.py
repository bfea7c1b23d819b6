"""The internal memory that a network needs, worked out from its graph alone.

``plan`` gives the bytes under one allocation strategy of the MXNet paper (arXiv:1512.01274,
section 3.1 and figure 7), ``lower_bound`` the least that any of them can reach. No framework is
involved: layer by layer, rules say what is kept for the backward pass and what may share memory.
"""

from __future__ import annotations

from netdyno.memory.planner import STRATEGIES, Plan, Strategy, lower_bound, plan
from netdyno.memory.rules import MXNET_1_9, MXNET_2015, PLAIN, RuleSet

__all__ = [
    "MXNET_1_9",
    "MXNET_2015",
    "PLAIN",
    "STRATEGIES",
    "Plan",
    "RuleSet",
    "Strategy",
    "lower_bound",
    "plan",
]
