"""``python -m nearsight`` and ``torchrun -m nearsight``."""

from nearsight.cli import main

if __name__ == "__main__":
    main()
