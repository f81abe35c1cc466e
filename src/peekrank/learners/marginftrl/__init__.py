"""Margin FTRL, for relevance that may change at will: its constants, its plans, and the learner."""
