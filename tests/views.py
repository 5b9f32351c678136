"""A network that reads its pictures as they lie in memory, which channels that come last change."""

from torch import nn


class Views(nn.Module):
    """One convolution, and a head over a view of what comes out of it."""

    def __init__(self, shape, outputs):
        super().__init__()
        channels, rows, columns = shape
        self.conv, self.head = nn.Conv2d(channels, 4, 3), nn.Linear(4 * (rows - 2) * (columns - 2), outputs)

    def forward(self, rows):
        return self.head(self.conv(rows).view(len(rows), -1))
