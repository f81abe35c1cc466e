"""Margin FTRL, which is robust to change: its constants, its exploration plans, and the learner."""
