"""Which types a skops file may name: what estimators are made of, and nothing that can run code of somebody's choice.

The reader of estimator files asks with the names that skops itself does not trust.
"""

from __future__ import annotations

import importlib
from types import BuiltinFunctionType, FunctionType

# scipy.stats' distributions are left out on purpose: their state is source code that they execute when they are read.
_NAMES = frozenset(
    {
        "collections.OrderedDict",
        "functools.partial",
        "lightgbm.basic.Booster",
        "numpy.dtype",
        "numpy.ndarray",
        "numpy.number",
        "numpy.random.RandomState",
        "numpy.random.mtrand.RandomState",
        "scipy._lib.array_api_compat.numpy._aliases.asarray",
        "scipy.interpolate._bsplines.BSpline",
        "scipy.sparse._csc.csc_array",
        "scipy.sparse._csc.csc_matrix",
        "scipy.sparse._csr.csr_array",
        "scipy.sparse._csr.csr_matrix",
        "sklearn.cluster._kmeans._kmeans_single_elkan",
        "sklearn.cluster._kmeans._kmeans_single_lloyd",
        "sklearn.utils.validation.check_array",
        "xgboost.core.Booster",
        *(f"numpy.{name}" for name in ("clip", "max", "mean", "median", "min", "nan_to_num", "round", "sum")),
        *(f"lightgbm.sklearn.LGBM{kind}" for kind in ("Classifier", "Ranker", "Regressor")),
        *(f"xgboost.sklearn.XGB{kind}" for kind in ("Classifier", "Ranker", "Regressor")),
        *(f"xgboost.sklearn.XGBRF{kind}" for kind in ("Classifier", "Regressor")),
    }
)
_FUNCTIONS_OF = ("sklearn.feature_selection.", "sklearn.metrics.")


def untrusted_types(names: list[str]) -> list[str]:
    """Those of skops' untrusted type names that are neither listed above nor defined by scikit-learn: a class, or a
    function that scores or compares.
    """
    return [name for name in names if name not in _NAMES and not _is_of_sklearn(name)]


def _is_of_sklearn(name: str) -> bool:
    if not name.startswith("sklearn."):
        return False
    module, _, attribute = name.rpartition(".")
    try:
        found = getattr(importlib.import_module(module), attribute, None)
    except ImportError:
        return False
    if isinstance(found, FunctionType | BuiltinFunctionType):
        return str(found.__module__).startswith(_FUNCTIONS_OF)
    return isinstance(found, type) and found.__module__.startswith("sklearn.")
