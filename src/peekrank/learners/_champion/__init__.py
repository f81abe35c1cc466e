"""Base of champion and auto: several learners that train on the same feedback, one of them the champion."""
