"""check(): is this gradient right, everywhere it will be used?"""
