"""Vision Transformers and the grid their patches sit on."""
