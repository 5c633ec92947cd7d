"""A compiler from PyTorch functions and their derivatives to streaming hardware."""

__version__ = "0.1.0"
