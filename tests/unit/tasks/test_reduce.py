"""Smaller sizes that keep a problem a problem."""

import pytest

from kernelgym.tasks.reduce import REDUCTIONS, reduced, reductions

ALL, CONSTANTS, SPATIAL = REDUCTIONS[:3]


def values(source, reduction=ALL):
    namespace = {}
    exec(reduced(source, reduction), namespace)
    namespace.pop("__builtins__")
    return namespace


def test_each_kind_of_size_is_cut_in_its_own_way():
    source = """
batch_size = 128
in_channels, out_channels = 480, 208  # odd quotients
height = width = 1024
kernel_size = (3, 5, 7)
num_groups = 512
features = 64 * 128
scale = 2.0
flag = True
name = "x"
"""
    assert values(source) == {
        "batch_size": 4,
        "in_channels": 60,
        "out_channels": 52,
        "height": 32,
        "width": 32,
        "kernel_size": (3, 5, 7),
        "num_groups": 8,
        "features": 64,
        "scale": 2.0,
        "flag": True,
        "name": "x",
    }


def test_groups_stay_below_the_channels_and_divide_them():
    found = values("out_features = 8192\nnum_groups = 256\n")
    assert found["out_features"] % found["num_groups"] == 0
    assert found["out_features"] // found["num_groups"] >= 2


def test_equal_sizes_stay_equal_and_odd_ones_odd():
    found = values("M = 8205\nK = 2949\nL = 65535\np = 768\nq = 768\n")
    assert found["p"] == found["q"]
    assert all(found[name] % 2 == 1 for name in "MKL")


def test_lists_and_repeats():
    found = values(
        "layer_sizes = [16384, 16384]\nhidden = [1024] * 3\nimage_shape = (3, 240, 240)\n"
    )
    assert found == {
        "layer_sizes": [64, 64],
        "hidden": [64, 64, 64],
        "image_shape": (3, 30, 30),
    }


def test_rows_without_space_keep_enough_of_them():
    assert values("batch_size = 32768\ndim = 4096\n")["batch_size"] == 32


def test_batch_as_long_as_the_rows_stays_as_long():
    found = values("batch_size = 32768\ninput_shape = (32768,)\ndim = 1\n")
    assert found == {"batch_size": 64, "input_shape": (64,), "dim": 1}


def test_three_dimensions_are_cut_to_half_the_length_of_two():
    found = values("depth, height, width = 32, 64, 64\nkernel_depth = 3\n")
    assert found == {"depth": 16, "height": 16, "width": 16, "kernel_depth": 3}
    found = values("depth = 32\nheight = width = 128\n")
    assert found == {"depth": 16, "height": 16, "width": 16}


def test_literals_of_get_inputs_only_when_asked():
    source = "batch_size = 9\nH = 8\ndef get_inputs():\n    return torch.rand(batch_size, 3, 224)\n"
    assert "torch.rand(batch_size, 3, 28)" in reduced(source, ALL)
    assert "torch.rand(batch_size, 3, 224)" in reduced(source, CONSTANTS)
    images = source.replace("batch_size = 9\nH = 8", "batch_size = 64")
    assert "batch_size = 4" in reduced(images, CONSTANTS)


def test_what_is_not_a_constant_of_integers_is_left_alone():
    source = "n = 4096\nshape = (n, 1, 1)\nx = f(4096)\ny = 4096 / 2\nclass M:\n    k = 4096\n"
    assert reduced(source, ALL) == source.replace("n = 4096", "n = 64")


def test_weaker_reductions_follow_and_repeat_nothing():
    names = [name for name, _ in reductions("batch_size = 64\nchannels = 128\nheight = 512\n")]
    assert names == ["all", "spatial", "mild", "mild spatial", "batch"]
    assert [name for name, _ in reductions("x = 1.0\n")] == ["all"]


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_line_numbers_keep_their_meaning(reduction):
    source = "a = (\n    4096\n)\n# é\nb = 2048 * 2\n"
    assert reduced(source, reduction).count("\n") == source.count("\n")
