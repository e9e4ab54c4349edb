"""How fast and how accurate everything is, measured and put into tables."""
