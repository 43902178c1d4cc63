"""The plan of what is covered and what shows through; directories are real, nothing is mounted."""

import os
import sys

import pytest

from kernelgym.errors import SandboxError
from kernelgym.sandbox import view
from kernelgym.sandbox.jail_spec import JailSpec


def plan_of(**changes):
    return view.plan_view(JailSpec("L1", 1, **changes))


def shows(result, path):
    """Whether a path is in plain view under a plan."""
    path = os.path.realpath(path)
    state = True
    for directory, show in result.order:
        if path == directory or path.startswith(directory + "/"):
            state = show
    return state


def test_what_is_needed_shows_whatever_is_hidden(tmp_path):
    around = [os.path.dirname(sys.prefix), os.path.dirname(sys.base_prefix)]
    for hidden in ((), tuple(around)):
        result = plan_of(hidden=hidden)
        for needed in (os.__file__, sys.prefix, view.__file__, "/usr/lib"):
            assert shows(result, needed), needed


def test_homes_and_shared_directories_are_covered():
    result = plan_of()
    for covered in ("/tmp", "/var/tmp", os.path.expanduser("~"), "/run"):
        if os.path.isdir(covered):
            assert not shows(result, covered), covered


def test_a_hidden_directory_below_a_shown_one(tmp_path):
    for name in ("a", "a/shown", "a/shown/hidden", "a/shown/hidden/again"):
        (tmp_path / name).mkdir()
    result = plan_of(
        hidden=(str(tmp_path / "a"), str(tmp_path / "a/shown/hidden")),
        readable=(str(tmp_path / "a/shown"), str(tmp_path / "a/shown/hidden/again")),
    )
    assert not shows(result, tmp_path / "a")
    assert shows(result, tmp_path / "a/shown")
    assert not shows(result, tmp_path / "a/shown/hidden")
    assert shows(result, tmp_path / "a/shown/hidden/again")


def test_the_plan_is_outermost_first_and_says_nothing_twice():
    order = plan_of(hidden=("/opt",)).order
    paths = [path for path, _ in order]
    assert len(paths) == len(set(paths))
    for index, (path, show) in enumerate(order):
        above = [s for p, s in order[:index] if path.startswith(p + "/")]
        assert show != (above[-1] if above else True), path
        assert not any(p.startswith(path + "/") for p in paths[:index])


def test_covering_wins_over_showing(tmp_path):
    result = plan_of(hidden=(str(tmp_path),), readable=(str(tmp_path),))
    assert not shows(result, tmp_path)


def test_links_are_resolved_and_missing_directories_ignored(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    result = plan_of(readable=(str(tmp_path / "link"), str(tmp_path / "absent")))
    assert shows(result, tmp_path / "real")
    assert not any("absent" in path for path, _ in result.order)


@pytest.mark.parametrize("path", ["/", "/usr", "/etc"])
def test_the_system_cannot_be_hidden(path):
    with pytest.raises(SandboxError, match="cannot be covered"):
        plan_of(hidden=(path,))


def test_a_closed_directory_on_the_way_is_covered_so_that_the_way_opens(tmp_path):
    (tmp_path / "closed" / "tool").mkdir(parents=True)
    (tmp_path / "closed").chmod(0o700)
    result = view.plan((), (str(tmp_path / "closed" / "tool"),), frozenset())
    assert str(tmp_path / "closed") in result.covered or not shows(result, tmp_path / "closed")
    assert shows(result, tmp_path / "closed" / "tool")


def test_a_private_interpreter_rules_out_another_user(tmp_path):
    (tmp_path / "site-packages").mkdir(mode=0o700)
    needed = view.needed_directories((str(tmp_path / "site-packages"),), gpu=False)
    result = view.plan((), (), needed)
    assert str(tmp_path / "site-packages") in result.private


def test_a_hidden_directory_that_appears_later_is_covered(tmp_path):
    later = tmp_path / "later"
    hidden = (str(later),)
    readable = (str(tmp_path),)
    assert str(later) not in plan_of(hidden=hidden, readable=readable).covered
    later.mkdir()
    assert str(later) in plan_of(hidden=hidden, readable=readable).covered
