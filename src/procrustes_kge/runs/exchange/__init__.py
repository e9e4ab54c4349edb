"""Formats in which other programs give and take vectors and predicted triples: one file for each kind."""
