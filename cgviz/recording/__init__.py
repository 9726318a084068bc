"""What TensorFlow did becomes a Trace: seams, events, builder, and trace() and record()."""
