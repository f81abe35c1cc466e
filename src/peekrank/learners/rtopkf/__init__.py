"""RTop-kF, ranking lists with features from top-k feedback (CT16, Algorithm 1), and better estimators for it."""
