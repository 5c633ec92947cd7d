import torch


def net():
    torch.manual_seed(0)
    return torch.nn.Linear(2, 1), (torch.zeros(3, 2),)


def sort():
    return lambda x: torch.sort(x)[0], (torch.zeros(3, 2),)
