"""Mixed: a Bayesian linear mixed model of answers, with a score, features, items and keys."""
