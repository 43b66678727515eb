"""`python -m posse`: the command line."""

import sys

from posse.cli import main

if __name__ == "__main__":
    sys.exit(main())
