"""
Rewriting with small rules: what a value is instead, or None.

A rule is a function of an operation and a builder that stands before it. It returns the value
that takes the place of the operation's result, or None, having built nothing. Rules are kept by
the type of the operation, so that a visit costs one look-up and the rules that may apply.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter, PatternRewriteWalker, RewritePattern
from xdsl.transforms.dead_code_elimination import is_trivially_dead

from ..dialects import inr
from ..interpreters.graph import ELEMENTWISE
from .graph_builder import GraphBuilder

Rule = Callable[[Any, GraphBuilder], SSAValue | None]
RuleT = TypeVar("RuleT", bound=Rule)
RuleTable = dict[type[Operation], list[Rule]]

ELEMENTWISE_OPS: tuple[type[Operation], ...] = (*ELEMENTWISE, inr.CompareOp)
"""Operations whose operands and result have one shape, each element computed by itself."""


def is_elementwise(op: Any) -> bool:
    """Whether an operation (or what owns a value) is elementwise."""
    return type(op) in ELEMENTWISE or isinstance(op, inr.CompareOp)


def entering(table: RuleTable) -> Callable[..., Callable[[RuleT], RuleT]]:
    """A decorator `rule(*op_types)` that appends a rule to `table` for these operations."""

    def rule(*op_types: type[Operation]) -> Callable[[RuleT], RuleT]:
        def enter(function: RuleT) -> RuleT:
            for op_type in op_types:
                table.setdefault(op_type, []).append(function)
            return function

        return enter

    return rule


def merged(tables: Sequence[RuleTable]) -> RuleTable:
    """The rules of several tables, those of earlier ones first."""
    result: RuleTable = {}
    for table in tables:
        for op_type, rules in table.items():
            result.setdefault(op_type, []).extend(rules)
    return result


class ApplyRules(RewritePattern):
    """The first rule that gives a value replaces the operation; a dead operation goes."""

    def __init__(self, table: RuleTable, limit: int):
        self.table = table
        self.left = limit
        """How many rewrites may still come before the rules count as running in a circle."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        """Rewrite one operation."""
        if is_trivially_dead(op):
            rewriter.erase(op)
            return
        rules = self.table.get(type(op))
        if rules is None:
            return
        rewriter.name_hint = op.results[0].name_hint
        builder = GraphBuilder(rewriter, op.location)
        for rule in rules:
            value = rule(op, builder)
            if value is None:
                continue
            self.left -= 1
            if self.left < 0:
                raise RuntimeError(f"the rules do not settle; the last was {rule.__name__}")
            rewriter.replace(op, [], [value])
            return


def apply_rules(module: ModuleOp, table: RuleTable) -> bool:
    """
    Apply rules until none applies; whether anything changed.

    Raises RuntimeError where rules undo each other, which is a mistake in a rule.
    """
    limit = 1000 + 100 * sum(1 for _ in module.walk())
    return PatternRewriteWalker(ApplyRules(table, limit)).rewrite_module(module)
