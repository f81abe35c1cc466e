"""FeedExp3: exponential weights on estimates from feedback, for every finite game that can be learned at all."""
