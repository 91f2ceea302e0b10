"""``python -m gbgnn`` is the command ``gbgnn``."""

from gbgnn.cli import main

if __name__ == "__main__":
    main()
