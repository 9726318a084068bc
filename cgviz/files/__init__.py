"""Traces to files and back."""
