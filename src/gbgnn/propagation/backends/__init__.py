"""The ways to compute P X, one file each; Propagator picks one."""

from gbgnn.propagation.backends.bag import Bag
from gbgnn.propagation.backends.base import Backend
from gbgnn.propagation.backends.torch_csr import TorchCsr

__all__ = ["Backend", "Bag", "TorchCsr"]
