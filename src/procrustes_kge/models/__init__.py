"""What has been learned, ours and the baselines: all answer `encode`, `query` and `scores`, and are ranked alike."""
