"""Vision Transformers; ``import nearsight.models`` makes our names known to timm."""

from nearsight.models.zoo.names import announce

announce()
