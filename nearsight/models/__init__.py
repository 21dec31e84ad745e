"""Vision Transformers; ``import nearsight.models`` makes our names known to timm."""

from nearsight.models.names import announce

announce()
