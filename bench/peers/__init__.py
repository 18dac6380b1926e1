"""All peers; a new one is a class and a line here. A peer's package is imported when it first runs a case."""

from __future__ import annotations

from bench.peers.base import Peer
from bench.peers.datafusion_peers import DataFusionHash, DataFusionSymmetric
from bench.peers.duckdb_peers import DuckBuckets, DuckPlanned
from bench.peers.ivjoin_peer import IvjoinPull, IvjoinPush
from bench.peers.polars_peers import PolarsInequality, PolarsStreaming
from bench.peers.table_peers import Acero, Pandas

__all__ = ["PEERS"]

PEERS: dict[str, type[Peer]] = {
    p.name: p
    for p in (
        IvjoinPush, IvjoinPull, DataFusionSymmetric, DataFusionHash, DuckBuckets, DuckPlanned, PolarsStreaming,
        PolarsInequality, Acero, Pandas,
    )
}  # fmt: skip
