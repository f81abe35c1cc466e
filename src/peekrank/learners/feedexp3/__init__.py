"""FeedExp3: exponential weights on loss estimates, for every globally observable finite game."""
