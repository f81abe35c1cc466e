"""Learners over streams, many times: experiments, sweeps, studies, comparisons."""
