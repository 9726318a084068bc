"""Turns what TensorFlow did into a Trace: hooks, events, build, and `trace` and `record`."""
