"""The specification of a join is one value: equal for equal joins, in every process, and readable from its bytes."""

from __future__ import annotations

import base64
import json
import pickle
import subprocess
import sys
import zlib
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from taken import one_of

from ivjoin import Order, Pick, SymmetricHashJoin
from ivjoin.plan.cache import plan_of, planned
from ivjoin.plan.question import join_spec
from ivjoin.plan.spec import JoinSpec

LEFT = pa.schema(
    [pa.field("k", pa.string(), nullable=False), ("a", pa.int64()), ("x", pa.float64()), ("d", pa.date32())]
)
RIGHT = pa.schema([("k", pa.string()), ("b", pa.int64()), ("x", pa.float64()), ("d", pa.date32())], {"of": "it"})
BASE: dict[str, Any] = {"on": "k", "condition": "l.a - r.b BETWEEN -2 AND 2"}
CHANGES: list[dict[str, Any]] = [
    {}, {"on": None}, {"on": ["k", "d"]}, {"condition": None}, {"condition": "l.a - r.b BETWEEN -2 AND 3"},
    {"condition": "l.x > 0.0"}, {"condition": "l.x > CAST('NaN' AS DOUBLE)"},
    {"how": "left"}, {"how": "leftanti"}, {"left_order": "a"}, {"right_order": "b"}, {"left_order": ["a", "d"]},
    {"left_order": Order("a", slack=2)}, {"left_order": Order("a", slack=2.5)},
    {"left_order": Order("a", slack=Decimal("2.5"))}, {"left_order": Order("a", descending=True)},
    {"left_order": Order("a", nulls="first")}, {"left_order": Order("d", slack=timedelta(days=3))},
    {"left_bounds": {"a": (0, None)}}, {"left_bounds": {"a": (0, 7)}}, {"right_bounds": {"b": (0, 7)}},
    {"left_bounds": {"d": (date(2020, 1, 1), None)}}, {"left_bounds": {"x": (-0.0, None)}}, {"suffix": "_r"},
    {"batch_size": 7}, {"on_late": "drop"}, {"timezone": "Europe/Berlin"},
    {"pick": Pick("b", "last")}, {"pick": Pick("b")}, {"pick": Pick(["b", "d"], "last")},
    {"pick": one_of(LEFT, RIGHT, "nearest", "b", "a")}, {"pick": one_of(LEFT, RIGHT, "nearest", "b", "-l.a")},
    {"pick": Pick("abs(l.a - r.b)", k=2)}, {"pick": Pick("abs(l.a - r.b)", k=2, ties="all")},
]  # fmt: skip
SPECS = [join_spec(LEFT, RIGHT, **(BASE | change)) for change in CHANGES]


@pytest.mark.parametrize("spec", SPECS, ids=[str(c) for c in CHANGES])
def test_a_spec_is_read_back_whole(spec: JoinSpec) -> None:
    for again in (
        pickle.loads(pickle.dumps(spec)), JoinSpec.from_json(json.loads(json.dumps(spec.as_json))),
        JoinSpec.from_json(json.loads(spec.encoded)),
    ):
        assert again == spec and hash(again) == hash(spec) and again is not spec
        assert again.schemas[1].metadata == {b"of": b"it"} and not again.schemas[0].field("k").nullable
        assert (again.orders, again.bounds, again.condition) == (spec.orders, spec.bounds, spec.condition)
        assert plan_of(again) is plan_of(spec)


def test_different_joins_are_different_specs() -> None:
    assert len({*SPECS}) == len({s.encoded for s in SPECS}) == len(SPECS)
    assert all((a == b) == (a is b) for a in SPECS for b in SPECS)
    assert SPECS[0] != "a join"


def test_the_same_join_in_other_words_is_the_same_spec() -> None:
    first = join_spec(LEFT, RIGHT, on="k", condition="abs(l.a - r.b) <= 2", how="outer", left_order="a")
    words = {"on": [("k", "k")], "condition": "ABS(left.a - right.b)   <= 2", "how": "full", "left_order": ["l.a"]}
    assert join_spec(LEFT, RIGHT, **words) == first


def test_a_spec_is_frozen() -> None:
    with pytest.raises(AttributeError):
        SPECS[0].how = "left"  # type: ignore[misc]


@pytest.mark.slow
def test_another_process_encodes_a_specification_to_the_same_bytes() -> None:
    code = ("import sys, pickle; s = pickle.loads(sys.stdin.buffer.read()); " "print(*[x.encoded.hex() for x in s])")
    done = subprocess.run([sys.executable, "-c", code], input=pickle.dumps(SPECS), capture_output=True, check=True)
    assert done.stdout.decode().split() == [s.encoded.hex() for s in SPECS]


def test_every_option_of_a_join_is_in_its_plan() -> None:
    options = {"suffix": "_2", "batch_size": 3, "on_late": "join", "timezone": "Asia/Tokyo"}
    spec = planned(LEFT, RIGHT, **BASE, **options).spec
    assert {name: getattr(spec, name) for name in options} == options
    of_sides = {f"{s}_{w}" for s in ("left", "right") for w in ("order", "bounds")}
    assert set(join_spec.__kwdefaults__ or ()) - of_sides == {
        "on", "condition", "also", "how", "aggregate", "pick", "params", *options
    }


# A snapshot of format 1 as a version without JoinSpec wrote it: a full join that has given three rows out.
OLD = (
    b"c-qZYPjBN?5O>mU2_=UfR;UsjR_|1aC$OC~btA3Rmu^`KqHM$#fubmKl9$AaV+a2s>4x0l8*t=+#APLpT=@_j5T9bd!7}sSbDX+K"
    b"+pG{`q!+)L`OUnUpT~~Rzxwox^NTMpa@srbZ?CQjnvfY8yS7KFGZJ<Nd}N2D+8`gHSbYXkXHq_6Y{F`N_Az69b}C$~R%7gQ+?+CY"
    b"E)40FNmp%>>}0Cb5K{}tR2VN)JX>rz{#*oD1jCfZGuUFLx-aT^%9cx0+fV9PADsUUUZwQGQ>$Zr5Yk~!)Cp&cxXbnVo`$$PLq*p2"
    b"_%Wf9n&W?k8tjcdOR4EEs2K=jXC*at+1C@1uY>uOoQaeFA5=-cNRtvDW~<R4L!fR*nqcVoUe}2nW$*ZIJn{%_G--plycYp3g18wO"
    b"I$oDlN#u-p7}=vSIAYI<z!ZmMj__--fzuys66`t=4{TRPAL>GuBD-;5iz06XhH)E$3~His`TX>r=k+;6>9o|u0~Y~p-*;6#(r>Ku"
    b"uOe!?e0I<EZ8Wx>2%h0e`DT|hg{cyKYJ6zvOEUgI$760!)(1<YLXYlMVsbyOmTPppG-=7aSz+mREdLf@$JEf*Rp18zu&A+?MH_V5"
    b"DAPk~m@6?bpaXw`48$%J1sS_Mz;`0bn@?+#_G~xg00gyaO48@lgG0b~GxtW*oFvC=DkZeh_G7PmYvp&0Pm}7jTrmyHI5v!<L(4io"
    b"G7e20>&5*37@v<&{By*;o->6cEfX`?QD@K!ofn)`4PD1qK+Clwj!#wKWAWI?3*SQvK0xz1CB4A+B1cj^OIe>0-tEggLMY732s^hD"
    b"{X5%@0T2Z-rv#fPRlx?_ZZZ!1krQ%g585W&>*7{=>8eA_%ps}a4Nn1m#G}CJ2%3=gR^U&<mIE)p5|wv3wU}VRy&p%yo#F!?IRU0M"
    b"uLUj4STZmytU`k^S*WE%ZC^!Py2soewlbI{n*ti;3Oso5#<l|vkArFoD&RwYwP;cuJ#nG|HX$i;1s&-?LJ2SrNOlG2td#ZU{58lc"
    b"_yE}xpCP+iQQOfTXa(4T<hDWAK*O(;ZS^bHPq4m*MV0;o<bi-4%=1v$L<(3XSX1!7l$fnm7!%gt!k^dvl(=2Q?PqWX)K`GDBP@BS"
    b"`=QX^5|!?$K5`FM#p*)e7B=krASdfUDQfSk&Wj?GwzVzd541#fK`#mxkeio^vz(U7+uC|5WUfivUIw?9!R=@K`x*bEjQ>$4zot0I"
    b"WpJD7iLI^nC(nOecAX^n*W%u(Yi{$o`UO^ZX|BG%W3F8A|12?i#Js;^uJE1~U_umUIppZSm@#dGIXk&y&hq!1vtnkB@^{Qpf;-6E"
    b"cRe#_RwmwBGiUh>Zk?W6<4=5vy=}|uAAkKSH}Cy^Eq*JLFPXo808s1X_5"
)


def test_a_snapshot_of_the_version_before_is_read() -> None:
    op = SymmetricHashJoin.restore(zlib.decompress(base64.b85decode(OLD)))
    m = op.metrics
    assert (m.left_rows_in, m.right_rows_in, m.rows_out, m.state_rows) == (3, 2, 3, 3)
    assert op.plan.spec.orders[0][0].slack == timedelta(seconds=2)
    (out,) = op.finish()
    assert out.to_pylist() == [{"k": "a", "t": None, "x": None, "t_2": datetime(1970, 1, 1, 0, 0, 12), "y": None}]
