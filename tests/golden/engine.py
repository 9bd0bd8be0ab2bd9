"""The engine's own cost model, asked by the name of a network."""

from collections.abc import Mapping
from functools import cache

from roofline.cost.attention import attention, naive_attention
from roofline.cost.deployment import Deployment, Options
from roofline.cost.step import Group, decode, prefill, step
from roofline.cost.work import Number, Op
from roofline.hardware.engine import Engine
from roofline.hardware.machine import Gpu, Node
from roofline.model import parameters
from roofline.model.catalog import architecture
from roofline.model.precision import resolve
