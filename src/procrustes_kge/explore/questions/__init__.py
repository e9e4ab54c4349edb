"""Questions as people write them, and answers as rows of a table."""
