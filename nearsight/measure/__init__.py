"""Measure how local every attention head of a model is."""
