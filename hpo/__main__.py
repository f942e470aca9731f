"""Makes `python -m hpo` the same as the command `hpo`."""

import sys

from hpo.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
