"""Ridge: Bayesian linear regression of relevance on features; explores where a list is in doubt."""
