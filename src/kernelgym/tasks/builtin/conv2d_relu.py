"""3 x 3 convolution with padding, bias and ReLU."""

import torch
import torch.nn as nn

CATEGORY = "convolution"
GPU_SIZES = {"BATCH": 32, "CHANNELS_IN": 64, "CHANNELS_OUT": 128, "SIZE": 128}

BATCH = 2
CHANNELS_IN = 4
CHANNELS_OUT = 8
SIZE = 16


class Model(nn.Module):
    def __init__(self, channels_in, channels_out):
        super().__init__()
        self.conv = nn.Conv2d(channels_in, channels_out, kernel_size=3, padding=1)

    def forward(self, x):
        return torch.relu(self.conv(x))


def get_inputs():
    return [torch.randn(BATCH, CHANNELS_IN, SIZE, SIZE)]


def get_init_inputs():
    return [CHANNELS_IN, CHANNELS_OUT]
