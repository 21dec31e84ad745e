"""The attention explorer: one web page that shows where every head of a model looks.

The room gathers what the page shows (``targets``, ``heads``, ``runs_table``), writes the page as
one file that needs no network (``exploration``, ``document``), shows it in notebooks, and serves it
for a folder of runs (``server``). The front end is in ``page/``.
"""
