"""Linear layers of PyTorch models as lookup tables."""
