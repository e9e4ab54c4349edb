"""From a graph and settings to a model: one loop, three trainers, and recipes that choose the settings."""
