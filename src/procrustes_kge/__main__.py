"""`python -m procrustes_kge` is the command `procrustes`."""

from procrustes_kge.cli import main

if __name__ == "__main__":
    main()
