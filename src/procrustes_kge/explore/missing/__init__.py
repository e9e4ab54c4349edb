"""The likely triples that a graph lacks, the best of all pairs."""
