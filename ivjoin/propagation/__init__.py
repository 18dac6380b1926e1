from ivjoin.interim.contract import Contraction, contract
from ivjoin.interim.dag import Outcome, contract_nodes, forward
from ivjoin.interim.domain import Dom

__all__ = ["Contraction", "Dom", "Outcome", "contract", "contract_nodes", "forward"]
