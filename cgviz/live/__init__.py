"""A trace in the browser: the live picture, the sliders, the prediction, the page."""
