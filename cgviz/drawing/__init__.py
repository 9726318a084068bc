"""A trace as a picture: its layout, its display list, and the figure for paper."""
