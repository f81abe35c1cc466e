"""Was it better, and is something wrong: logs that can be evaluated, estimates, confidence sequences, alarms."""
