"""The configuration file: its models, its loader, its checks."""
