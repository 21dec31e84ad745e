"""Draw the figures of reports, one module per figure.

A figure is described as a ``Drawing``; ``drawing.py`` turns it into SVG, PNG and PDF.
"""
