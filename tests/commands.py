"""What the tests of the command line share: a small graph in a file, short trainings, and what is on disk."""

from pathlib import Path

TINY = ("--dim", "40", "--segment", "10", "--epochs", "3", "--device", "cpu")
# A ring of 40 where each knows the next and the one after, said twice where it starts; 0 is odd in every way.
TRIPLES = [f"e{i}\t{name}\te{(i + steps) % 40}" for i in range(40) for name, steps in (("next", 1), ("after next", 2))]
ODD = ["e0\tnext\te1", "e0\tnext\te0", "e0\tonce\te7"]
RING = "\n".join(TRIPLES + ODD) + "\n"

# Patterns of what is printed.
FIGURES = r"MRR (\.\d{3}|1\.000)   hits@1 (\.\d{3}|1\.000)   hits@3 (\.\d{3}|1\.000)   hits@10 (\.\d{3}|1\.000)"
ENDING = r"took \d+\.\d s in all\nrepeat: procrustes train [^\n]+\n"  # of `procrustes train`
SIDES = r"\(tails \.\d{3}, heads \.\d{3}\)"


def contents():
    """Return everything in the current folder and in the cache beside it: paths, and the bytes of files."""
    return {str(path): path.read_bytes() if path.is_file() else None for path in Path("..").rglob("*")}


def write_folder(name, **splits):
    """Write a folder of train, valid and test files; a row is 'a r b'."""
    Path(name).mkdir()
    for split, rows in splits.items():
        Path(name, f"{split}.txt").write_text("".join("\t".join(row.split()) + "\n" for row in rows))
