"""scikit-learn estimators, read from skops files without running code of theirs."""
