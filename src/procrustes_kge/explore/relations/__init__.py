"""What relations are, read off their maps, and what leaks from training to test."""
