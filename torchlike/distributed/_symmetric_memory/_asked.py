"""Whether there is symmetric memory."""


def is_symm_mem_enabled_for_group(group_name: str) -> bool:
    """False: no group has such memory."""
    return False


def is_nvshmem_available() -> bool:
    """False: what it is for is not here."""
    return False
