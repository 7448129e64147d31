"""The identity of a boot."""

from pathlib import Path

from recorder.process import boot_id


def test_a_boot_stays_the_same_and_is_known_where_the_system_names_it() -> None:
    assert boot_id() == boot_id()
    assert (boot_id() is not None) == Path("/proc/sys/kernel/random/boot_id").exists()
