"""The searches of the attacks: they find what is planted, and never their own question."""

import os
import subprocess
import sys
import time

import pytest
import torch

from kernelgym.sandbox.attacks import device_scan, places, scan


@pytest.fixture
def secret():
    return os.urandom(64)


@pytest.fixture
def search(secret):
    return places.Search(scan.invert(secret))


def test_a_file_is_found_and_a_link_is_not_followed(search, secret, tmp_path):
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "planted").write_bytes(b"x" * 1000 + secret)
    (tmp_path / "other").write_bytes(bytes(255 - value for value in secret))
    (tmp_path / "link").symlink_to(tmp_path / "deep" / "planted")
    places.files(search, (str(tmp_path),))
    assert search.found == [f"secret in {tmp_path}/deep/planted"]
    assert search.looked_at == 2


def test_the_own_environment_is_searched(monkeypatch):
    text = os.urandom(16).hex()
    search = places.Search(scan.invert(text.encode()))
    places.environment(search)
    assert search.found == []
    monkeypatch.setenv("PLANTED", text)
    places.environment(search)
    assert search.found == ["secret in os.environ"]


def test_anonymous_files_that_were_handed_over_are_searched(search, secret):
    fd = os.memfd_create("planted")
    os.write(fd, secret)
    places.descriptors(search)
    os.close(fd)
    assert search.found == [f"secret in descriptor {fd}"]


def test_another_process_is_searched(secret):
    """Its environment, and its memory when it is asked for."""
    text = secret.hex()
    program = "import sys, time; kept = bytes.fromhex(sys.stdin.readline()); print(1, flush=True);"
    child = subprocess.Popen(
        [sys.executable, "-c", program + "time.sleep(60)", "planted-process"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={"PLANTED": text},
    )  # fmt: skip
    try:
        assert child.stdin is not None and child.stdout is not None
        child.stdin.write(text + "\n")
        child.stdin.flush()
        assert child.stdout.readline()
        found = places.Search(scan.invert(text.encode()), 60.0)
        places.processes(found)
        assert f"secret in /proc/{child.pid}/environ" in found.found
        memory = places.Search(scan.invert(secret), 60.0)
        places.processes(memory, memory_of="planted-process")
        assert f"secret in memory of {child.pid}" in memory.found
    finally:
        child.kill()
        child.communicate()


def test_a_search_ends_with_its_time(secret, tmp_path):
    (tmp_path / "planted").write_bytes(secret)
    search = places.Search(scan.invert(secret), seconds=0.0)
    time.sleep(0.01)
    places.files(search, (str(tmp_path),))
    assert (search.found, search.looked_at) == ([], 0)


@pytest.mark.parametrize("dtype", [torch.int64, torch.uint8, torch.float32])
def test_tensors_are_searched_word_by_word(secret, dtype):
    inverse = scan.invert(secret)
    flat = torch.zeros(1 << 16, dtype=torch.uint8)
    assert device_scan.count(flat.view(dtype), inverse) == 0
    planted = torch.frombuffer(bytearray(secret), dtype=torch.uint8)
    flat[4096:4160] = planted
    flat[-64:] = planted
    assert device_scan.count(flat.view(dtype), inverse) == 2
    flat[4096:4160] = planted.bitwise_not()
    assert device_scan.count(flat.view(dtype), inverse) == 1


def test_a_secret_across_two_pieces_is_found(secret, monkeypatch):
    monkeypatch.setattr(device_scan, "_PIECE_WORDS", 16)
    flat = torch.zeros(1024, dtype=torch.uint8)
    flat[15 * 8 : 15 * 8 + 64] = torch.frombuffer(bytearray(secret), dtype=torch.uint8)
    assert device_scan.count(flat, scan.invert(secret)) == 1


def test_the_whole_storage_behind_a_view_is_searched(secret):
    pool = torch.zeros(1 << 12, dtype=torch.uint8)
    pool[2048:2112] = torch.frombuffer(bytearray(secret), dtype=torch.uint8)
    view = pool[:64].view(torch.float32)
    assert device_scan.count(view, scan.invert(secret)) == 0
    assert device_scan.count(device_scan.storage_of(view), scan.invert(secret)) == 1
