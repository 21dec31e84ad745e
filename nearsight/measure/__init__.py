"""How local every attention head of a trained model is."""
