"""A trace in words and numbers: Jacobians, paths, the chain rule, the table."""
