"""What TensorFlow did becomes a Trace: hooks, events, build, and `trace` and `record`."""
