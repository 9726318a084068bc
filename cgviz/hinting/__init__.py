"""Hints under TensorFlow's own errors."""
