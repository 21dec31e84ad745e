"""Make tables, figures and HTML pages from the files of finished runs.

Everything is read from ``run.json``, ``train.jsonl``, ``measure.json`` and the files beside them,
so that this room needs neither torch nor the model. ``read`` loads and groups runs, ``figures``
draws, and ``write`` sets tables and pages.
"""
