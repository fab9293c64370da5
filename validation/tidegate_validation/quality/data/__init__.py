"""What the quality gate compares: held-out examples with labels and groups, and each version's predictions for them."""
