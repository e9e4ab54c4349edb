"""The folder that a training leaves behind, and vectors for other programs."""
