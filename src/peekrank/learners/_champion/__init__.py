"""Several learners that learn from the same answers, one of them in charge: what champion and auto share."""
