"""`python -m benchmarks.group_load [--quick] [ROW ...]`."""

import sys

from benchmarks.group_load.running import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
