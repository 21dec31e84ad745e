"""Lists the packages; everything else about the build is in pyproject.toml."""

from setuptools import find_packages, setup

RECIPES = "nearsight.study.recipes"  # the folder studies/, so that a wheel carries the recipes

setup(
    packages=[*find_packages(include=["nearsight", "nearsight.*"]), RECIPES],
    package_dir={RECIPES: "studies"},
)
