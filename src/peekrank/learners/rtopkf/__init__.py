"""RTop-kF (CT16, Algorithm 1): gradient steps on lists with features, from top-k feedback."""
