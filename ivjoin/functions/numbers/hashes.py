"""Hash functions, which have no interval rules: Spark's ``hash`` (Murmur3) and ``xxhash64``, and digests of texts.

The sources are Spark's Murmur3_x86_32 and XXH64. They follow A. Appleby and Y. Collet, except that they process the
last bytes of a text one by one. The seed of ``hash`` and ``xxhash64`` is 42, and a NULL does not change the hash.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np

from ivjoin.errors import ConditionError, UnsupportedError
from ivjoin.expr.build.casting import cast
from ivjoin.expr.build.coerce import as_text
from ivjoin.expr.build.strings import constant_int
from ivjoin.expr.kernels.cells import Cell, Consts, Kernel, combined, rows
from ivjoin.expr.nodes import Node, make
from ivjoin.expr.types import BINARY, INT32, INT64, STRING, Type, duration, timestamp
from ivjoin.functions.records.record import ANY, NOT_LINEAR, Absent, Call, Meaning, Operator, call, never, of_texts, one
from ivjoin.functions.records.rowwise import by_row, listed
from ivjoin.functions.records.writing import Written, called

__all__ = ["OPERATORS", "SPELLINGS"]

_SCATTERED = Absent("a hash does not preserve ranges")
_M32, _M64 = (1 << 32) - 1, (1 << 64) - 1


# Murmur3, 32 bits


def _mixed(k: int, h: int) -> int:
    k = k * 0xCC9E2D51 & _M32
    k = (k << 15 | k >> 17) * 0x1B873593 & _M32
    h ^= k
    return ((h << 13 | h >> 19) & _M32) * 5 + 0xE6546B64 & _M32


def _ended(h: int, length: int) -> int:
    h ^= length
    h = (h ^ h >> 16) * 0x85EBCA6B & _M32
    h = (h ^ h >> 13) * 0xC2B2AE35 & _M32
    return h ^ h >> 16


def _murmur_int(v: int, h: int) -> int:
    return _ended(_mixed(v & _M32, h), 4)


def _murmur_long(v: int, h: int) -> int:
    return _ended(_mixed(v >> 32 & _M32, _mixed(v & _M32, h)), 8)


def _murmur_bytes(octets: bytes, h: int) -> int:
    whole = len(octets) & ~3
    for i in range(0, whole, 4):
        h = _mixed(int.from_bytes(octets[i : i + 4], "little"), h)
    for octet in octets[whole:]:
        h = _mixed((octet ^ 0x80) - 0x80 & _M32, h)
    return _ended(h, len(octets))


# XXH64

_P1, _P2, _P3, _P4, _P5 = (
    0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5,
)  # fmt: skip


def _turned(v: int, n: int) -> int:
    return (v << n | v >> 64 - n) & _M64


def _finished(h: int) -> int:
    h = (h ^ h >> 33) * _P2 & _M64
    h = (h ^ h >> 29) * _P3 & _M64
    return h ^ h >> 32


def _eight(h: int, v: int) -> int:
    h ^= _turned(v * _P2 & _M64, 31) * _P1 & _M64
    return _turned(h, 27) * _P1 + _P4 & _M64


def _four(h: int, v: int) -> int:
    return _turned(h ^ (v * _P1 & _M64), 23) * _P2 + _P3 & _M64


def _xx_int(v: int, seed: int) -> int:
    return _finished(_four(seed + _P5 + 4 & _M64, v & _M32))


def _xx_long(v: int, seed: int) -> int:
    return _finished(_eight(seed + _P5 + 8 & _M64, v & _M64))


def _xx_bytes(octets: bytes, seed: int) -> int:
    n, i = len(octets), 0
    if n >= 32:
        lanes = [seed + _P1 + _P2 & _M64, seed + _P2 & _M64, seed, seed - _P1 & _M64]
        while i <= n - 32:
            for j in range(4):
                v = int.from_bytes(octets[i + 8 * j : i + 8 * j + 8], "little")
                lanes[j] = _turned(lanes[j] + v * _P2 & _M64, 31) * _P1 & _M64
            i += 32
        h = sum(_turned(lane, r) for lane, r in zip(lanes, (1, 7, 12, 18))) & _M64
        for lane in lanes:
            h = (h ^ _turned(lane * _P2 & _M64, 31) * _P1 & _M64) * _P1 + _P4 & _M64
    else:
        h = seed + _P5 & _M64
    h = h + n & _M64
    while i <= n - 8:
        h, i = _eight(h, int.from_bytes(octets[i : i + 8], "little")), i + 8
    if i <= n - 4:
        h, i = _four(h, int.from_bytes(octets[i : i + 4], "little")), i + 4
    for octet in octets[i:]:
        h = _turned(h ^ (octet * _P5 & _M64), 11) * _P1 & _M64
    return _finished(h)


_BITS: dict[int, Any] = {32: (np.float32, np.int32), 64: (np.float64, np.int64)}


def _as_words(cell: Cell, t: Type, n: int) -> tuple[str, list[Any]]:
    """Return the kind of the hashed values (int, long or bytes), and the values."""
    if t.kind == "float":
        float_type, int_type = _BITS[t.bits]
        v = cell[0].astype(float_type) + float_type(0)  # -0.0 becomes 0.0
        v = np.where(np.isnan(v), float_type(np.nan), v).astype(float_type)
        return ("int" if t.bits == 32 else "long"), listed((v.view(int_type), None, None), n)
    values = listed(cell, n)
    if t.kind in ("string", "binary"):
        return "bytes", [v.encode() if isinstance(v, str) else v for v in values]
    if t.kind == "decimal" and t.precision > 18:
        return "bytes", [int(v).to_bytes((int(v) + (v < 0)).bit_length() // 8 + 1, "big", signed=True) for v in values]
    wide = t.kind in ("timestamp", "duration", "decimal") or (t.kind == "int" and t.bits == 64)
    return ("long" if wide else "int"), [int(v) for v in values]


def _hashing(functions: dict[str, Callable[[Any, int], int]], bits: int) -> Callable[[Node, Consts], Kernel]:
    def rule(node: Node, consts: Consts) -> Kernel:
        types = [a.type for a in node.args]

        def kernel(*cells: Cell) -> Cell:
            n, err = rows(*(c[0] for c in cells)), None
            hashes = [42] * n
            for cell, t in zip(cells, types, strict=True):
                err = combined(err, cell[2])
                skipped = [False] * n if cell[1] is None else listed((~cell[1], None, None), n)
                kind, values = _as_words(cell, t, n)
                f = functions[kind]
                hashes = [h if s else f(v, h) for h, s, v in zip(hashes, skipped, values)]
            out = np.array(hashes, dtype=np.uint32 if bits == 32 else np.uint64)
            if err is not None:
                err = np.broadcast_to(err, (n,)).copy()
            return out.view(np.int32 if bits == 32 else np.int64), None, err

        return kernel

    return rule


def _hash(name: str, functions: dict[str, Callable[[Any, int], int]], t: Type) -> Operator:
    def build(a: list[Node], zone: str) -> Node:
        return make(name, tuple(_hashable(x, name) for x in a), (), t)

    return Operator(
        name, {"*": Meaning(_hashing(functions, t.bits), _SCATTERED)},
        (f"{name}(l.a, r.u)", f"{name}(l.x, l.d, r.t, r.k, l.p, l.f)", f"{name}(l.n)"), called(name),
        _SCATTERED, NOT_LINEAR, calls=(call(name, 1, ANY, build),), warns=False, passes_null=never,
    )  # fmt: skip


def _hashable(x: Node, what: str) -> Node:
    t = x.type
    if t.kind in ("opaque", "time", "decimal256") or (t.kind == "int" and not t.signed):
        raise UnsupportedError(f"{what} cannot take {t}: {x}; Spark has no hash of it")
    if t.kind == "null":
        return cast(x, INT32)
    if t.kind in ("timestamp", "duration") and t.unit != "us":
        return cast(x, timestamp("us", t.tz) if t.kind == "timestamp" else duration("us"))
    return x


# Digests


def _bytes(x: Node, what: str) -> Node:
    return cast(as_text(x, what), BINARY)


def _digest(names: str, t: Type, f: Callable[[bytes], Any]) -> Operator:
    name = names.split()[0]
    return Operator(
        name, {"*": Meaning(by_row(f), _SCATTERED)}, (f"{name}(l.s)", f"{name}(l.z)"), called(name),
        _SCATTERED, NOT_LINEAR, calls=(of_texts(one(names, lambda a: make(name, (_bytes(a, name),), (), t))),),
        warns=False,
    )  # fmt: skip


def _sha2(a: list[Node], zone: str) -> Node:
    bits = constant_int(a[1], "the length of sha2")
    if bits not in (0, 224, 256, 384, 512):
        raise ConditionError(f"sha2 makes 224, 256, 384 or 512 bits (0: 256), not {bits}")
    return make("sha2", (_bytes(a[0], "sha2"),), (bits or 256,), STRING)


def _sha2_exact(node: Node, consts: Consts) -> Kernel:
    make_digest = getattr(hashlib, f"sha{node.params[0]}")
    return by_row(lambda v: make_digest(v).hexdigest())(node, consts)


_sha2_text: Written = called("sha2", params=True)

OPERATORS = (
    _hash("hash", {"int": _murmur_int, "long": _murmur_long, "bytes": _murmur_bytes}, INT32),
    _hash("xxhash64", {"int": _xx_int, "long": _xx_long, "bytes": _xx_bytes}, INT64),
    _digest("crc32", INT64, zlib.crc32),
    _digest("md5", STRING, lambda v: hashlib.md5(v).hexdigest()),
    _digest("sha1 sha", STRING, lambda v: hashlib.sha1(v).hexdigest()),
    Operator(
        "sha2", {"*": Meaning(_sha2_exact, _SCATTERED)}, ("sha2(l.s, 256)",), _sha2_text, _SCATTERED, NOT_LINEAR,
        calls=(of_texts(call("sha2", 2, 2, _sha2)),), warns=False,
    ),
)  # fmt: skip
SPELLINGS: tuple[Call, ...] = ()
