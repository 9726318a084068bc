"""diagnose(): where a gradient became None, zero, NaN, tiny or huge, and why."""
