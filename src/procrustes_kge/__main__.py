"""`python -m procrustes_kge` is the command `procrustes`."""

from procrustes_kge.system.process import prepare_process


def main() -> None:
    """Prepare the process, then load the command, and PyTorch with it."""
    prepare_process()
    from procrustes_kge.cli import main as command

    command()


if __name__ == "__main__":
    main()
