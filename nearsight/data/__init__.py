"""Data sets, their cache, and augmentation."""
