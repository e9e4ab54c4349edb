"""Where entity vectors lie: three components, arms, clusters and what their members share."""
