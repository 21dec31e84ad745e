"""Register our models with timm: ``import nearsight.timm``, then ``timm.create_model(name)``.

>>> import timm
>>> import nearsight.timm
>>> timm.is_model("locatvit_base")
True
"""

from __future__ import annotations

from nearsight.models.zoo import register_with_timm

register_with_timm()
