"""All peers; a new one is a class and a line here. A peer's package is imported when it first runs a case."""

from __future__ import annotations

from bench.peers.base import Peer
from bench.peers.datafusion_peers import DataFusionHash, DataFusionSymmetric
from bench.peers.ivjoin_peer import IvjoinPull, IvjoinPush

__all__ = ["PEERS"]

PEERS: dict[str, type[Peer]] = {
    p.name: p
    for p in (IvjoinPush, IvjoinPull, DataFusionSymmetric, DataFusionHash)
}
