"""One file per figure; drawing.py turns what they describe into SVG, PNG and PDF."""
