"""Data sets, augmentation, and the preparation of images."""
