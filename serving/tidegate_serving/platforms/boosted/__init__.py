"""XGBoost and LightGBM models: trees behind one kind of booster."""
