"""Scores of a model that was trained or saved, as arrays: exact, mapped from the disk, or by an index."""
