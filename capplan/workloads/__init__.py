"""Workload files and traces of requests: from what people have to values."""
