"""Off-policy evaluation: logs, policies, estimators with confidence sequences, and position bias."""
