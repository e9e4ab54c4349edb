"""Pictures and self-contained pages: plots in one style, the map, the report."""
