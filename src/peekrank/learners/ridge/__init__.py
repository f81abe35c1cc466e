"""Ridge: Bayesian linear regression of relevance on features, with exploration where the order is uncertain."""
