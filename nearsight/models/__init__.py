"""Vision Transformers: layers, the parts added to them, architectures, loading and cost."""
