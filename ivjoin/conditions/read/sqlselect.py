"""Read ``SELECT ... FROM ... JOIN ... WHERE ...`` in Spark's dialect: tables, joins, conditions and output columns."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ivjoin.conditions.read.sqlgrammar import statement
from ivjoin.conditions.read.sqltext import node_of
from ivjoin.errors import ConditionError, OptionError, UnsupportedError, came
from ivjoin.expr.nodes import Node
from ivjoin.expr.scope import Scope

if TYPE_CHECKING:
    from sqlglot import exp

__all__ = ["Item", "JoinClause", "Select", "TableName", "read_select"]


@dataclass(frozen=True, slots=True)
class TableName:
    """A table in FROM or JOIN: its name or path, and the qualifier of its columns."""

    name: str
    alias: str
    quoted: bool


@dataclass(frozen=True, slots=True)
class JoinClause:
    """A JOIN that adds one table to the tables before it.

    ``how`` is inner, left, right, full, left_semi or left_anti. ``crossed`` means CROSS JOIN or ON TRUE. ``using`` are
    the columns of USING, which both sides have.
    """

    how: str
    asof: bool = False
    natural: bool = False
    crossed: bool = False
    on: exp.Expression | None = None
    using: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Item:
    """An entry of the select list: an expression with its name, or a star.

    A star has no ``tree``. ``name`` is the alias, or the column name, or the text of the expression. ``of`` is the
    table of ``l.*``. ``without`` contains (table, column) for each name in EXCEPT.
    """

    tree: exp.Expression | None
    name: str = ""
    of: str | None = None
    without: tuple[tuple[str | None, str], ...] = ()


@dataclass(frozen=True)
class Select:
    """A query with one SELECT."""

    text: str
    tables: tuple[TableName, ...]
    joins: tuple[JoinClause, ...]
    where: exp.Expression | None
    items: tuple[Item, ...]

    def node(self, e: exp.Expression, scope: Scope, timezone: str) -> Node:
        return node_of(e, self.text, scope, timezone)


def read_select(text: str) -> Select:
    """Return the parts of a query.

    A text that cannot be parsed, or is not a SELECT with a join, raises a ConditionError. Other clauses (such as GROUP
    BY) and subqueries raise an UnsupportedError.
    """
    from sqlglot import exp

    if not isinstance(text, str) or not text.strip():
        raise OptionError(f"the query is {came(text)}; expected text such as 'SELECT * FROM l JOIN r ON l.k = r.k'")
    e = statement(text)
    if isinstance(e, exp.SetOperation):
        raise _refused(e.key.upper())
    if not isinstance(e, exp.Select):
        raise ConditionError(
            "the query is not a SELECT; expected SELECT columns FROM left JOIN right ON condition"
            + ("; give a condition to condition= of ivjoin.band_join()" if isinstance(e, exp.Condition) else "")
        )
    _refuse_more(e)
    first = e.args.get("from_") or e.args.get("from")
    if first is None:
        raise ConditionError("the query has no FROM; expected SELECT columns FROM left JOIN right ON condition")
    joins = e.args.get("joins") or []
    if not joins:
        raise UnsupportedError(
            "the query reads one table; expected a JOIN. Read one table with its own library, such as DuckDB or Polars"
        )
    where = e.args.get("where")
    return Select(
        text, tuple(_table(x.this) for x in (first, *joins)), tuple(_join(j, text) for j in joins),
        None if where is None else where.this, tuple(_item(x) for x in e.expressions),
    )


_ALLOWED = {"expressions", "from", "from_", "joins", "where", "hint", "kind"}
_NAMES = {
    "with": "WITH", "with_": "WITH", "distinct": "DISTINCT", "group": "GROUP BY", "having": "HAVING",
    "order": "ORDER BY", "windows": "WINDOW", "laterals": "LATERAL VIEW", "sort": "SORT BY", "cluster": "CLUSTER BY",
    "distribute": "DISTRIBUTE BY",
}  # fmt: skip
_AGGREGATES = frozenset({
    "sum", "count", "avg", "mean", "min", "max", "first", "last", "any_value", "first_value", "last_value",
    "collect_list", "collect_set", "array_agg", "string_agg", "listagg", "stddev", "stddev_pop", "stddev_samp",
    "variance", "var_pop", "var_samp", "median", "mode", "percentile", "quantile", "approx_percentile",
    "approx_count_distinct", "count_if", "bool_and", "bool_or", "every", "some", "corr", "min_by", "max_by",
})  # fmt: skip


def _refused(what: str) -> UnsupportedError:
    return UnsupportedError(
        f"{what} is not supported in ivjoin.sql(), which only joins. Give the join to DuckDB: "
        "joined = ivjoin.sql('SELECT ... FROM ... JOIN ...').to_duckdb(), and then "
        f"duckdb.sql('SELECT ... FROM joined ...') with {what}"
    )


def _refuse_more(e: exp.Select) -> None:
    from sqlglot import exp

    for name, given in e.args.items():
        if given and name not in _ALLOWED:
            raise _refused(_NAMES.get(name, name.upper().strip("_")))
    for x in e.walk():
        if isinstance(x, (exp.Subquery, exp.Select, exp.Exists)) and x is not e:
            raise _refused("a subquery")
        if isinstance(x, exp.Window):
            raise _refused("a window function (OVER)")
        if isinstance(x, exp.Anonymous) and str(x.this).lower() in _AGGREGATES:
            raise _refused(f"the aggregate {str(x.this).lower()}()")


def _table(e: exp.Expression) -> TableName:
    from sqlglot import exp

    if not isinstance(e, exp.Table) or not isinstance(e.this, exp.Identifier):
        raise _refused(f"{e.key.upper()} in FROM")
    extra = [n for n, v in e.args.items() if v and n not in ("this", "alias", "db", "catalog")]
    alias = e.args.get("alias")
    if alias is not None and alias.args.get("columns"):
        extra.append("a list of column names")
    if extra:
        raise UnsupportedError(f"{e.sql('spark')}: {extra[0].upper()} is not supported after a table in ivjoin.sql()")
    db = e.args.get("db")
    if db is not None and db.name.lower() not in ("parquet", "csv", "json"):
        whole = ".".join(p.name for p in e.parts)
        raise ConditionError(f"the table {whole} has a dot; put the path of a file in quotes: FROM '{whole}'")
    # The default alias of a path is the name of its file: 'in/clicks.parquet' is clicks.
    stem = re.sub(r"\W", "_", re.split(r"[/\\]", e.name)[-1].split(".")[0]) if e.this.quoted else e.name
    return TableName(e.name, e.alias or stem or "t", bool(e.this.quoted))


def _join(e: exp.Join, text: str) -> JoinClause:
    from sqlglot import exp

    method, side, kind = (str(e.args.get(n) or "").upper() for n in ("method", "side", "kind"))
    if e.args.get("global_") or method not in ("", "ASOF", "NATURAL") or kind not in _KINDS:
        raise UnsupportedError(f"{e.sql('spark')} is not a join that ivjoin.sql() supports")
    how = {"SEMI": "left_semi", "ANTI": "left_anti"}.get(kind) or side.lower() or "inner"
    if kind in ("SEMI", "ANTI") and side not in ("", "LEFT"):
        raise UnsupportedError(f"{side} {kind} JOIN; exchange the tables and write LEFT {kind} JOIN")
    using, on = e.args.get("using") or (), e.args.get("on")
    # The parser turns a comma into CROSS JOIN, and a JOIN without ON into ON TRUE.
    crossed = kind == "CROSS" and re.search(r"\bcross\s+join\b", text, re.IGNORECASE) is not None
    if isinstance(on, exp.Boolean) and on.this:
        crossed, on = re.search(r"\bon\s+\(?true\b", text, re.IGNORECASE) is not None, None
    return JoinClause(how, method == "ASOF", method == "NATURAL", crossed, on, tuple(u.name for u in using))


_KINDS = ("", "INNER", "OUTER", "CROSS", "SEMI", "ANTI")


def _item(e: exp.Expression) -> Item:
    from sqlglot import exp

    star = e.this if isinstance(e, exp.Column) else e
    if isinstance(star, exp.Star):
        if any(star.args.get(n) for n in ("replace", "rename")):
            raise UnsupportedError("* REPLACE and * RENAME; write * EXCEPT (name), expression AS name")
        without = tuple((x.table or None, x.name) for x in star.args.get("except_") or star.args.get("except") or ())
        return Item(None, of=e.table if isinstance(e, exp.Column) else None, without=without)
    if isinstance(e, exp.Alias):
        return Item(e.this, e.alias)
    named = isinstance(e, (exp.Column, exp.Dot))
    return Item(e, e.name if named else e.sql("spark"))
